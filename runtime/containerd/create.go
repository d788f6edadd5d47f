package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path"
	"strings"
	"time"

	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/containerd/typeurl/v2"
	"github.com/moby/sys/user"
	"github.com/opencontainers/runtime-spec/specs-go"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/crashpoint"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd/ocispec"
	"github.com/heteroflow/node-agent/runtime/ulimit"
)

// ociShim is the containerd runtime that runs runc and all that take its arguments.
const ociShim = "io.containerd.runc.v2"

// Labels of a snapshot, beside those of its container that snapshotLabels takes over.
const (
	// labelContainer names its container, which may not exist yet.
	labelContainer = "io.heteroflow.container"
	// labelRoot keeps it from containerd's garbage collector meanwhile. A lease would cost
	// each start two more writes of containerd's database; Sweep finds what a crash leaves
	// in either case.
	labelRoot = "containerd.io/gc.root"
)

// Create ensures the container exists. Its cgroup is /NAMESPACE/ID below each controller.
func (r *Runtime) Create(ctx context.Context, spec runtime.Spec) (runtime.Container, error) {
	if err := errors.Join(spec.Validate(), checkSources(spec.Mounts)); err != nil {
		return runtime.Container{}, err
	}
	what := "create container " + spec.Name
	id := containerID(spec.Name)
	release, err := r.locks.take(ctx, id)
	if err != nil {
		return runtime.Container{}, translate(ctx, what, err)
	}
	defer release()
	call, cancel := r.bound(ctx, writeTimeout)
	defer cancel()

	o, err := r.observe(call, id)
	if errdefs.IsNotFound(err) {
		var made containers.Container
		if made, err = r.create(call, id, spec); err == nil {
			o, err = r.join(made, nil)
		}
	}
	if err != nil {
		return runtime.Container{}, translate(ctx, what, err)
	}
	if o.meta.Name != spec.Name || o.meta.Labels[runtime.LabelSpecHash] != spec.Hash() {
		return runtime.Container{}, fmt.Errorf("%s: %w: one of that name exists with another spec", what, runtime.ErrConflict)
	}
	return o.container(), nil
}

// checkSources: a mount source is never made, and what is missing is best said before
// anything else is done.
func checkSources(mounts []runtime.Mount) error {
	for _, m := range mounts {
		if _, err := os.Stat(m.Source); err != nil {
			return fmt.Errorf("%w: mount source: %w", runtime.ErrInvalid, err)
		}
	}
	return nil
}

// create makes everything anew; what a crash has left under the id goes first.
func (r *Runtime) create(ctx context.Context, id string, spec runtime.Spec) (made containers.Container, err error) {
	named, err := runtime.ParseReference(spec.Image)
	if err != nil {
		return made, err
	}
	defer func() {
		if err == nil {
			return
		}
		after, cancel := r.detached(ctx)
		defer cancel()
		err = errors.Join(err, r.discard(after, id))
	}()
	img, err := r.findImage(ctx, named)
	if err != nil {
		return made, fmt.Errorf("image %s: %w", named, err)
	}
	config, err := r.configOf(ctx, img)
	if err != nil {
		return made, fmt.Errorf("image %s: %w", named, err)
	}
	if _, err := ocispec.Command(spec, config.config); err != nil {
		return made, err
	}
	mounts, err := r.snapshot(ctx, id, img, config.chain, snapshotLabels(id, spec.Labels))
	if err != nil {
		return made, fmt.Errorf("prepare root file system: %w", err)
	}
	crashpoint.Reach("containerd: file system made")
	who, err := userIn(ctx, mounts, spec, config)
	if err != nil {
		return made, err
	}
	oci, m, err := r.compose(id, named.String(), spec, config, who)
	if err != nil {
		return made, err
	}
	crashpoint.Reach("containerd: files written")
	made, err = r.store(ctx, id, oci, m)
	crashpoint.Reach("containerd: container made")
	return made, err
}

// discard removes what create has made before the container itself.
func (r *Runtime) discard(ctx context.Context, id string) error {
	err := r.client.SnapshotService(r.options.Snapshotter).Remove(ctx, id)
	if errdefs.IsNotFound(err) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(string(r.dir(id))))
}

// maxLabel is how long a key and its value may be together for containerd (its package
// pkg/labels); those of containers lie elsewhere and may be longer.
const maxLabel = 4096

// snapshotLabels are those of a container's file system. Of the container's own it has what
// tells whose it is: Sweep is to know that before the container exists. A user's mean nothing
// to Sweep, and something to containerd's garbage collector where they are named like its own.
func snapshotLabels(id string, container map[string]string) map[string]string {
	labels := map[string]string{labelContainer: id, labelRoot: time.Now().UTC().Format(time.RFC3339)}
	for key, value := range container {
		_, taken := labels[key]
		if !taken && strings.HasPrefix(key, "io.heteroflow.") && len(key)+len(value) <= maxLabel {
			labels[key] = value
		}
	}
	return labels
}

// snapshot gives the container its own writable layer over the image's.
func (r *Runtime) snapshot(ctx context.Context, id string, img images.Image, chain string, labels map[string]string) ([]mount.Mount, error) {
	s := r.client.SnapshotService(r.options.Snapshotter)
	own := snapshots.WithLabels(labels)
	mounts, err := s.Prepare(ctx, id, chain, own)
	if errdefs.IsAlreadyExists(err) {
		if err := r.discard(ctx, id); err != nil {
			return nil, err
		}
		mounts, err = s.Prepare(ctx, id, chain, own)
	}
	if errdefs.IsNotFound(err) {
		// Another client fetched the image without unpacking it.
		if err := client.NewImage(r.client, img).Unpack(ctx, r.options.Snapshotter); err != nil {
			return nil, err
		}
		mounts, err = s.Prepare(ctx, id, chain, own)
	}
	return mounts, err
}

func userIn(ctx context.Context, mounts []mount.Mount, spec runtime.Spec, image imageConfig) (u user.ExecUser, err error) {
	name := spec.User
	if name == "" {
		name = image.config.User
	}
	err = mount.WithReadonlyTempMount(ctx, mounts, func(root string) error {
		u, err = ocispec.ResolveUser(root, name)
		return err
	})
	return u, err
}

// compose makes the OCI spec, our own facts and the files bound into the container.
func (r *Runtime) compose(id, ref string, spec runtime.Spec, image imageConfig, who user.ExecUser) (*specs.Spec, meta, error) {
	labels := map[string]string{runtime.LabelSpecHash: spec.Hash()}
	maps.Copy(labels, spec.Labels)
	host, err := os.Hostname()
	if err != nil {
		return nil, meta{}, err
	}
	m := meta{
		Name: spec.Name, Image: ref, Labels: labels, Network: spec.Network, Logs: spec.Logs,
		Hostname: ocispec.Hostname(spec, host), StopSignal: image.config.StopSignal,
	}
	dir := r.dir(id)
	if err := r.writeFiles(id, m); err != nil {
		return nil, meta{}, err
	}
	in := ocispec.Input{
		Spec: spec, Image: image.config, User: who, Hostname: m.Hostname,
		Hosts: dir.Hosts(), ResolvConf: dir.ResolvConf(), HostnameFile: dir.Hostname(),
		CgroupsPath: path.Join("/", r.options.Namespace, id),
		Limits:      r.limits(),
		Cgroup2:     onCgroup2(),
		LimitSwap:   accountsForSwap(),
		HostQueues:  isDirectory("/dev/mqueue"),
	}
	if spec.Network.Mode == runtime.NetworkBridge {
		in.NetNS = r.network.Path(id)
	}
	oci, err := ocispec.Build(in)
	if err == nil {
		err = inject(oci, spec, r.options.CDIDirs)
	}
	return oci, m, err
}

// accountsForSwap: version 1 of the controller has the limit only if the kernel was
// booted to account for swap; version 2 has it wherever there is swap to limit.
func accountsForSwap() bool {
	if onCgroup2() {
		return true
	}
	_, err := os.Stat("/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")
	return err == nil
}

func isDirectory(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// resolvConfs are the host's resolver configurations. systemd-resolved keeps the servers
// it asks in the second, and in the first an address that only the host can reach.
var resolvConfs = []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"}

func (r *Runtime) writeFiles(id string, m meta) error {
	dir := r.dir(id)
	if err := os.RemoveAll(string(dir)); err != nil {
		return err
	}
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return err
	}
	resolv, err := os.ReadFile(resolvConfs[0])
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if asked, err := os.ReadFile(resolvConfs[1]); err == nil && m.Network.Mode != runtime.NetworkHost {
		resolv = asked
	}
	return errors.Join(
		writeShared(dir.ResolvConf(), ocispec.ResolvConf(resolv, m.Network.Mode)),
		writeShared(dir.Hostname(), []byte(m.Hostname+"\n")),
		r.writeHosts(id, m, netip.Addr{}),
	)
}

// writeHosts rewrites the file in place: it may be bound into the container already.
func (r *Runtime) writeHosts(id string, m meta, ip netip.Addr) error {
	host, err := os.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return writeShared(r.dir(id).Hosts(), ocispec.HostsFile(host, m.Network.Mode, m.Hostname, ip))
}

// writeShared writes a file that any user in the container may read.
func writeShared(name string, data []byte) error {
	if err := os.WriteFile(name, data, 0o644); err != nil { //nolint:gosec // as said
		return err
	}
	return os.Chmod(name, 0o644) //nolint:gosec // whatever the umask is
}

func (r *Runtime) limits() ulimit.Limits {
	limits, err := ulimit.OfSocket(r.options.Address)
	if err != nil {
		r.options.Log.Debug("limits of the daemon are not known; asking for what GPU work wants", zap.Error(err))
	}
	return limits
}

func (r *Runtime) store(ctx context.Context, id string, oci *specs.Spec, m meta) (containers.Container, error) {
	encoded, err := typeurl.MarshalAny(oci)
	if err != nil {
		return containers.Container{}, fmt.Errorf("encode OCI spec: %w", err)
	}
	small, large := splitLabels(m.Labels)
	m.Labels = large
	extension, err := m.encode()
	if err != nil {
		return containers.Container{}, err
	}
	runtimeInfo := containers.RuntimeInfo{Name: ociShim}
	if r.options.OCIRuntime != "" {
		if runtimeInfo.Options, err = typeurl.MarshalAny(&options.Options{BinaryName: r.options.OCIRuntime}); err != nil {
			return containers.Container{}, fmt.Errorf("encode runtime options: %w", err)
		}
	}
	return r.client.ContainerService().Create(ctx, containers.Container{
		ID: id, Labels: small, Image: m.Image, Runtime: runtimeInfo, Spec: encoded,
		Snapshotter: r.options.Snapshotter, SnapshotKey: id,
		Extensions: map[string]typeurl.Any{metaKey: extension},
	})
}
