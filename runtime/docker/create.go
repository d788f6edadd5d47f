package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/ulimit"
)

// Create makes the container, or finds the one an earlier call made: see
// [runtime.Runtime]. The label of the spec's hash is how it knows its own.
func (r *Runtime) Create(ctx context.Context, spec runtime.Spec) (runtime.Container, error) {
	c, err := r.create(ctx, spec)
	if err != nil {
		return runtime.Container{}, fmt.Errorf("create container %q: %w", spec.Name, err)
	}
	return c, nil
}

func (r *Runtime) create(ctx context.Context, spec runtime.Spec) (runtime.Container, error) {
	if err := spec.Validate(); err != nil {
		return runtime.Container{}, err
	}
	options, err := createOptions(spec, r.ulimits())
	if err != nil {
		return runtime.Container{}, err
	}
	c, err := r.createOnce(ctx, spec, options)
	for _, delay := range retryDelays {
		if !errors.Is(err, errNameTaken) {
			break
		}
		select {
		case <-ctx.Done():
			return runtime.Container{}, ctx.Err()
		case <-time.After(delay):
			c, err = r.createOnce(ctx, spec, options)
		}
	}
	return c, err
}

// errNameTaken: the daemon has reserved the name for a container that cannot be seen
// yet, or any more: another create or a removal is under way.
var errNameTaken = fmt.Errorf("%w: the name is taken by a container that cannot be inspected", runtime.ErrConflict)

func (r *Runtime) createOnce(ctx context.Context, spec runtime.Spec, options client.ContainerCreateOptions) (runtime.Container, error) {
	var created client.ContainerCreateResult
	err := r.call(ctx, r.timeouts.Create, func(ctx context.Context, api *client.Client) (err error) {
		created, err = api.ContainerCreate(ctx, options)
		return err
	})
	if err != nil {
		return r.existing(ctx, spec, err)
	}
	c, err := r.Inspect(ctx, created.ID)
	c.Warnings = created.Warnings
	return c, err
}

// existing looks for the container after create did not work out: its name may be
// taken, by an earlier call's container or another's, or only the answer was lost.
func (r *Runtime) existing(ctx context.Context, spec runtime.Spec, cause error) (runtime.Container, error) {
	if ctx.Err() != nil {
		return runtime.Container{}, cause
	}
	found, err := r.Inspect(ctx, spec.Name)
	switch {
	case errors.Is(err, runtime.ErrNotFound) && errors.Is(cause, runtime.ErrConflict):
		return runtime.Container{}, fmt.Errorf("%w: %w", errNameTaken, cause)
	case errors.Is(err, runtime.ErrNotFound):
		return runtime.Container{}, cause
	case err != nil:
		return runtime.Container{}, fmt.Errorf("%w; and then: %w", cause, err)
	case found.Labels[runtime.LabelSpecHash] != spec.Hash():
		return runtime.Container{}, fmt.Errorf("%w: container %s has this name and another spec", runtime.ErrConflict, found.ID)
	}
	return found, nil
}

func createOptions(spec runtime.Spec, ulimits []*container.Ulimit) (client.ContainerCreateOptions, error) {
	image, err := runtime.ParseReference(spec.Image)
	if err != nil {
		return client.ContainerCreateOptions{}, err
	}
	labels := maps.Clone(spec.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[runtime.LabelSpecHash] = spec.Hash()
	exposed, bindings := ports(spec.Network.Ports)
	return client.ContainerCreateOptions{
		Name: spec.Name,
		Config: &container.Config{
			// The full form: the daemon reads a short one as an image id if it can.
			Image:        image.String(),
			Labels:       labels,
			Entrypoint:   spec.Entrypoint,
			Cmd:          spec.Args,
			Env:          spec.Env,
			WorkingDir:   spec.WorkingDir,
			User:         spec.User,
			Hostname:     spec.Hostname,
			ExposedPorts: exposed,
			Healthcheck:  &container.HealthConfig{Test: []string{"NONE"}},
		},
		HostConfig: &container.HostConfig{
			LogConfig:     logConfig(spec.Logs),
			NetworkMode:   container.NetworkMode(spec.Network.Mode),
			PortBindings:  bindings,
			RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
			IpcMode:       container.IpcMode(spec.IPC),
			SecurityOpt:   []string{"no-new-privileges"},
			ShmSize:       spec.Resources.ShmSizeBytes,
			Resources:     withDevices(resources(spec.Resources, ulimits), spec),
			GroupAdd:      groups(spec.Groups),
			Mounts:        mounts(spec.Mounts),
			Init:          new(false), // even where the daemon's default is to have one
		},
	}, nil
}

// logConfig chooses the local driver: it rotates and compresses, finds the end of a
// log without reading its beginning, and keeps bytes as they are, where json-file
// replaces what is not UTF-8.
func logConfig(limits runtime.LogLimits) container.LogConfig {
	return container.LogConfig{
		Type: "local",
		Config: map[string]string{
			"max-size": strconv.FormatInt(limits.MaxBytes, 10),
			"max-file": strconv.Itoa(limits.MaxFiles),
			"compress": strconv.FormatBool(limits.MaxFiles > 1), // the driver refuses it for one file
		},
	}
}

// ulimits are what containers get on containerd. Nothing is known of what a daemon behind
// an address other than a socket of this host may give: its own defaults stay.
func (r *Runtime) ulimits() []*container.Ulimit {
	socket, local := strings.CutPrefix(r.host, "unix://")
	if !local {
		return nil
	}
	limits, err := ulimit.OfSocket(socket)
	if err != nil {
		limits = ulimit.Wanted // the call that follows tells what is wrong with the socket
	}
	return []*container.Ulimit{limitOf("nofile", limits.OpenFiles), limitOf("memlock", limits.LockedMemory)}
}

// limitOf is hard and soft; Docker's word for unlimited is -1.
func limitOf(name string, value uint64) *container.Ulimit {
	n := int64(value)
	return &container.Ulimit{Name: name, Hard: n, Soft: n}
}

// allPids is the kernel's own limit of processes on 64 bits, PID_MAX_LIMIT
// (include/linux/threads.h), hence none of a cgroup's.
const allPids = 1 << 22

func resources(limits runtime.Resources, ulimits []*container.Ulimit) container.Resources {
	pids := limits.PidsLimit
	if pids == 0 {
		pids = allPids // unsaid, as Docker takes 0 and -1 to be, systemd's DefaultTasksMax would hold
	}
	return container.Resources{
		Ulimits:    ulimits,
		NanoCPUs:   int64(math.Round(limits.CPUs * 1e9)),
		Memory:     limits.MemoryBytes,
		MemorySwap: limits.MemoryBytes, // memory and swap together, so no swap on top
		PidsLimit:  &pids,
	}
}

// mounts binds by Mounts and not by Binds, which would create a missing source as an
// empty directory of root's.
func mounts(specs []runtime.Mount) []mount.Mount {
	mounts := make([]mount.Mount, 0, len(specs))
	for _, m := range specs {
		mounts = append(mounts, mount.Mount{
			Type:        mount.TypeBind,
			Source:      m.Source,
			Target:      m.Target,
			ReadOnly:    m.ReadOnly,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate},
		})
	}
	return mounts
}

func ports(specs []runtime.Port) (network.PortSet, network.PortMap) {
	exposed, bindings := network.PortSet{}, network.PortMap{}
	for _, p := range specs {
		port, ok := network.PortFrom(p.Container, network.IPProtocol(p.Protocol))
		if !ok {
			continue
		}
		exposed[port] = struct{}{}
		bindings[port] = append(bindings[port], network.PortBinding{HostPort: strconv.Itoa(int(p.Host))})
	}
	return exposed, bindings
}
