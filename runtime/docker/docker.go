// Package docker is [runtime.Runtime] on a Docker daemon, spoken to through its Engine
// API (1.40, Docker 19.03, and later) and never through the docker command.
//
// It owns the connection, the translation of a [runtime.Spec] into a container and of
// the daemon's answers and error texts into package runtime's. Every call has its own
// deadline besides the caller's context, see [Timeouts]. A call whose answer is lost is
// followed by an inspection, so that a started container is never reported as failed. A run
// that Docker lost because it or its containerd died within the start is found from outside of
// it: nothing is started twice, and nothing goes on unseen.
//
// What a container gets beyond its spec: the local log driver with limits, no restart
// policy, no automatic removal, limits of open files and locked memory that suit GPU work
// (package ulimit), no-new-privileges (so sudo and other setuid programs
// gain nothing in it), no health check of the image's, and no init process: the program
// is PID 1, as with containerd. An init would execute the program itself, after the
// daemon has called the container started, so that a missing program would look like
// one that ran and failed. The price is the kernel's rule for PID 1: a program that
// installs no handler for the stop signal does not see it and is killed after the grace.
//
// The package keeps no credentials, decides nothing about tasks and starts no
// goroutines of its own; the HTTP client's end with the call they serve.
package docker

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/moby/moby/client"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/runtime"
)

var _ runtime.Runtime = (*Runtime)(nil)

// Options tell which daemon to drive.
type Options struct {
	Host     string      // "unix:///path" or "tcp://host:port"; empty: unix:///var/run/docker.sock
	Timeouts Timeouts    // the zero value is right outside of tests
	Proc     string      // where the process file system is mounted; empty: /proc
	Log      *zap.Logger // nil: none
}

// Runtime drives one Docker daemon.
type Runtime struct {
	host     string
	timeouts Timeouts
	proc     string
	log      *zap.Logger

	root       atomic.Pointer[string]        // of the daemon's data; nil until it has told
	negotiated atomic.Pointer[client.Client] // nil until the daemon has told its version
}

// New prepares to speak to a daemon. It does not connect: the daemon may be down now
// and come up later. The only error is ErrInvalid for a host that makes no sense.
func New(o Options) (*Runtime, error) {
	if o.Host == "" {
		o.Host = client.DefaultDockerHost
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	r := &Runtime{host: o.Host, timeouts: o.Timeouts.withDefaults(), proc: cmp.Or(o.Proc, "/proc"), log: o.Log}
	probe, err := r.newClient()
	if err != nil {
		return nil, fmt.Errorf("%w: docker host %q: %w", runtime.ErrInvalid, o.Host, err)
	}
	return r, probe.Close()
}

// Name returns runtime.Docker.
func (r *Runtime) Name() runtime.Name { return runtime.Docker }

// Close lets go of idle connections. Containers are not touched.
func (r *Runtime) Close() error {
	if c := r.negotiated.Swap(nil); c != nil {
		return c.Close()
	}
	return nil
}

// Probe asks the daemon for its version and abilities and negotiates the API version
// anew, as the daemon may have been replaced by another release. A daemon without its
// containerd lists and inspects containers, and can start and stop none: it counts as away.
func (r *Runtime) Probe(ctx context.Context) (runtime.Info, error) {
	r.forget(r.negotiated.Load())
	var info runtime.Info
	var alone bool
	err := r.call(ctx, r.timeouts.Probe, func(ctx context.Context, api *client.Client) error {
		reply, err := api.Info(ctx, client.InfoOptions{})
		if err != nil {
			return err
		}
		info = runtime.Info{
			Version:       reply.Info.ServerVersion,
			APIVersion:    api.ClientVersion(),
			RootDir:       reply.Info.DockerRootDir,
			ImageDir:      imageDir(reply.Info, containerdRoot),
			CgroupVersion: 1, // what daemons before API 1.41 know of, and do not tell
			CDI:           len(reply.Info.CDISpecDirs) > 0,
			CDIDirs:       reply.Info.CDISpecDirs,
		}
		if v := reply.Info.CgroupVersion; v != "" {
			info.CgroupVersion, err = strconv.Atoi(v)
		}
		alone = withoutContainerd(ctx, api, reply.Info)
		return err
	})
	if err == nil && alone {
		err = fmt.Errorf("%w: Docker answers, but its containerd does not", runtime.ErrUnavailable)
	}
	if err != nil {
		return runtime.Info{}, fmt.Errorf("probe docker at %s: %w", r.host, err)
	}
	return info, nil
}
