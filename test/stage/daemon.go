package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	containerdclient "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd"
	"github.com/heteroflow/node-agent/runtime/docker"
	"github.com/heteroflow/node-agent/test/daemon"
)

// Daemon is a container daemon of this machine, seen beside an agent that uses it.
type Daemon struct {
	runtime.Runtime
	// Settings make an agent use this daemon.
	Settings []string
	// Socket is the daemon's.
	Socket string
	// Forget removes what an agent never does: an image, and the bridge that containerd
	// tasks share. What is missing is no error.
	Forget func(ctx context.Context, image string) error
}

// Place is a daemon and, in containerd, the corner of it where an agent works.
type Place struct {
	Kind   runtime.Name
	Socket string // path; empty: what the variables of package daemon name, or the usual one

	// Of containerd; empty: where staged tasks live unless somebody says otherwise. They
	// meet nothing of an agent that works on this machine.
	Namespace string
	Bridge    string
	Subnet    string
}

// The defaults of a Place.
const (
	namespace = "heteroflow-stage"
	bridge    = "heteroflow-st0"
	subnet    = "10.214.0.0/16"
)

// OpenDaemon opens the daemon for the agent a, which is to work there.
func OpenDaemon(p Place, a *Agent) (*Daemon, error) {
	if p.Kind == runtime.Containerd {
		return openContainerd(p, a)
	}
	host := valueOr(daemon.DockerVariable, daemon.DefaultDocker)
	if p.Socket != "" {
		host = "unix://" + p.Socket
	}
	rt, err := docker.New(docker.Options{Host: host})
	if err != nil {
		return nil, err
	}
	return &Daemon{
		Runtime:  rt,
		Settings: []string{"runtime.name=docker", "runtime.docker_host=" + host},
		Socket:   strings.TrimPrefix(host, "unix://"),
		Forget: func(ctx context.Context, image string) error {
			c, err := client.New(client.WithHost(host))
			if err != nil {
				return err
			}
			_, err = c.ImageRemove(ctx, image, client.ImageRemoveOptions{PruneChildren: true})
			return errors.Join(ignoreMissing(err), c.Close())
		},
	}, nil
}

func openContainerd(p Place, a *Agent) (*Daemon, error) {
	socket := cmp.Or(p.Socket, valueOr(daemon.ContainerdVariable, daemon.DefaultContainerd))
	namespace, bridge, subnet := cmp.Or(p.Namespace, namespace), cmp.Or(p.Bridge, bridge), cmp.Or(p.Subnet, subnet)
	run := filepath.Join(a.Dir, "run")
	prefix, err := netip.ParsePrefix(subnet)
	if err != nil {
		return nil, err
	}
	rt, err := containerd.New(containerd.Options{
		Address: socket, Namespace: namespace, Bridge: bridge, Subnet: prefix,
		StateDir: filepath.Join(a.StateDir(), "containerd"), RunDir: run, LogBinary: a.Binary,
	})
	if err != nil {
		return nil, err
	}
	return &Daemon{
		Runtime: rt,
		Settings: []string{
			"runtime.name=containerd", "runtime.containerd.address=" + socket, "runtime.containerd.namespace=" + namespace,
			"runtime.containerd.bridge=" + bridge, "runtime.containerd.subnet=" + subnet, "runtime.containerd.run_dir=" + run,
		},
		Socket: socket,
		Forget: func(ctx context.Context, image string) error {
			c, err := containerdclient.New(socket)
			if err != nil {
				return err
			}
			err = c.ImageService().Delete(namespaces.WithNamespace(ctx, namespace), image)
			return errors.Join(ignoreMissing(err), c.Close(), removeBridge(ctx, bridge))
		},
	}, nil
}

// RemoveContainers removes what carries the labels and reports each as an error: an agent
// should have removed it.
func (d *Daemon) RemoveContainers(ctx context.Context, labels map[string]string) error {
	left, err := d.List(ctx, labels)
	errs := []error{err}
	for _, c := range left {
		errs = append(errs, fmt.Errorf("container %s (%s) is left", c.Name, c.State), d.Remove(ctx, c.ID))
	}
	return errors.Join(errs...)
}

func removeBridge(ctx context.Context, bridge string) error {
	if _, err := net.InterfaceByName(bridge); err != nil {
		return nil //nolint:nilerr // there is none: no task had a network
	}
	out, err := exec.CommandContext(ctx, "ip", "link", "delete", bridge).CombinedOutput()
	if err != nil {
		return fmt.Errorf("remove bridge %s: %w: %s", bridge, err, out)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

func valueOr(variable, fallback string) string {
	if v := os.Getenv(variable); v != "" {
		return v
	}
	return fallback
}
