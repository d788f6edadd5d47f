// Package containerd is the [runtime.Runtime] of a containerd daemon, 1.6 or later,
// through its client: no Docker, no CRI. It owns one containerd namespace and in it
// everything a task's container is made of: the container, its snapshot, its task, its
// directory with logs and records below StateDir, its network namespace below RunDir. It
// touches nothing in any other namespace.
//
// # How a container's end stays known
//
// containerd 1.7 and 2 forget how a task ended when they are restarted after its end and
// before anybody asked. So each task has a log shim beside it (package logshim), started
// by containerd's own shim, that asks the shim for the exit and writes it down. Who is
// asked for an exit here looks there first, then asks containerd, and otherwise says that
// it is lost. It is never guessed.
//
// # What it needs of its host
//
// The agent must see the host's mounts (a snapshot is mounted for a moment to find a user
// in it), its pids and its network namespaces as containerd does: it runs on the host, or
// in a container that shares these. Where the daemon lacks CAP_SYS_RESOURCE, the limits
// of open files and locked memory stay at the daemon's own.
//
// The package runs the goroutines of its gRPC connection until Close, and one per Pull,
// Start and Stop until these return.
package containerd

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/log"
	"github.com/sirupsen/logrus"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd/network"
	"github.com/heteroflow/node-agent/runtime/containerd/record"
)

// How long a call may take at most. Those that only look at the daemon's database are
// quick unless it hangs; making and starting a task runs programs, on a busy disk.
const (
	probeTimeout = 8 * time.Second
	readTimeout  = 20 * time.Second
	writeTimeout = 3 * time.Minute
)

// bootID is where the kernel tells one boot from another.
const bootID = "/proc/sys/kernel/random/boot_id"

// Options say where things are. The zero value of each field but LogBinary is a default.
type Options struct {
	Address     string // the daemon's socket; default /run/containerd/containerd.sock
	Namespace   string // default "heteroflow"
	Snapshotter string // default "overlayfs"
	OCIRuntime  string // name or path of runc, crun or the like; default the daemon's own
	HostsDir    string // registry hosts; default /etc/containerd/certs.d

	StateDir string // records and logs; default /var/lib/heteroflow/containerd
	RunDir   string // networks; must not survive a reboot; default /run/heteroflow/containerd

	// LogBinary is the absolute path, as the daemon sees it, of the program that, given
	// logshim.Command and a directory, calls logshim.Main: the agent itself. A task starts
	// when it has, and keeps one process of it. Where [LogShim] lies beside it, that is
	// used instead.
	LogBinary string

	CDIDirs []string // CDI specs, those of later directories before others'; default /etc/cdi, /var/run/cdi

	PluginDirs []string     // CNI plugins; default /usr/lib/cni, /usr/libexec/cni, /opt/cni/bin
	Bridge     string       // default "heteroflow0"
	Subnet     netip.Prefix // of the bridge; default 10.213.0.0/16

	Log *zap.Logger // default none
}

func (o Options) withDefaults() Options {
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	set(&o.Address, "/run/containerd/containerd.sock")
	set(&o.Namespace, "heteroflow")
	set(&o.Snapshotter, "overlayfs")
	set(&o.HostsDir, "/etc/containerd/certs.d")
	set(&o.StateDir, "/var/lib/heteroflow/containerd")
	set(&o.RunDir, "/run/heteroflow/containerd")
	set(&o.Bridge, "heteroflow0")
	if o.PluginDirs == nil {
		o.PluginDirs = []string{"/usr/lib/cni", "/usr/libexec/cni", "/opt/cni/bin"}
	}
	if o.CDIDirs == nil {
		o.CDIDirs = []string{"/etc/cdi", "/var/run/cdi"}
	}
	if !o.Subnet.IsValid() {
		o.Subnet = netip.MustParsePrefix("10.213.0.0/16")
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return o
}

// Runtime drives one containerd. It is safe for concurrent use.
type Runtime struct {
	options Options
	client  *client.Client
	network *network.Network
	locks   locks
	pulling sync.Map // ids of the leases of pulls at work
	images  configCache
	boot    string // the kernel's id of this boot
}

var _ runtime.Runtime = (*Runtime)(nil)

// New makes a client. The daemon need not be there yet: it is connected to by the first
// call, and again after it has been away.
func New(o Options) (*Runtime, error) {
	o = o.withDefaults()
	if !filepath.IsAbs(o.LogBinary) {
		return nil, fmt.Errorf("containerd: log binary %q: want an absolute path", o.LogBinary)
	}
	if !validID(o.Namespace) {
		return nil, fmt.Errorf("containerd: namespace %q: want letters and digits, at most %d with single . _ - between them", o.Namespace, maxID)
	}
	bridge, err := network.New(network.Config{
		PluginDirs: o.PluginDirs, RunDir: filepath.Join(o.RunDir, o.Namespace), Bridge: o.Bridge, Subnet: o.Subnet,
	})
	if err != nil {
		return nil, err
	}
	boot, err := os.ReadFile(bootID)
	if err != nil {
		return nil, fmt.Errorf("containerd: %w", err)
	}
	o.LogBinary = logBinary(o.LogBinary, o.Log)
	// The timeout here is how long the client waits at most between attempts to connect.
	c, err := client.New(o.Address, client.WithTimeout(2*time.Second))
	if err != nil {
		return nil, fmt.Errorf("containerd: %w", err)
	}
	return &Runtime{options: o, client: c, network: bridge, boot: strings.TrimSpace(string(boot))}, nil
}

// Name is containerd.
func (r *Runtime) Name() runtime.Name { return runtime.Containerd }

// Close lets go of the connection.
func (r *Runtime) Close() error {
	if err := r.client.Close(); err != nil {
		return fmt.Errorf("close connection to containerd: %w", err)
	}
	return nil
}

// Probe asks the daemon for its version and whether the configured snapshotter works.
// containerd leaves CDI to its clients, so it is always there.
func (r *Runtime) Probe(ctx context.Context) (runtime.Info, error) {
	call, cancel := r.bound(ctx, probeTimeout)
	defer cancel()
	fail := func(err error) (runtime.Info, error) {
		return runtime.Info{}, translate(ctx, "probe containerd at "+r.options.Address, err)
	}
	version, err := r.client.Version(call)
	if err != nil {
		return fail(err)
	}
	plugins, err := r.client.IntrospectionService().Plugins(call, "type==io.containerd.snapshotter.v1")
	if err != nil {
		return fail(err)
	}
	for _, p := range plugins.Plugins {
		if p.ID != r.options.Snapshotter {
			continue
		}
		if p.InitErr != nil {
			return fail(fmt.Errorf("%w: snapshotter %s: %s", runtime.ErrUnavailable, p.ID, p.InitErr.Message))
		}
		return runtime.Info{
			Version:       version.Version,
			RootDir:       filepath.Dir(p.Exports["root"]),
			ImageDir:      filepath.Dir(p.Exports["root"]), // of the content store, too, unless a snapshotter is kept elsewhere
			CgroupVersion: cgroupVersion(),
			CDI:           true,
			CDIDirs:       r.options.CDIDirs,
		}, nil
	}
	return fail(fmt.Errorf("%w: it has no snapshotter %q", runtime.ErrUnavailable, r.options.Snapshotter))
}

func cgroupVersion() int {
	if onCgroup2() {
		return 2
	}
	return 1
}

func onCgroup2() bool {
	var st unix.Statfs_t
	return unix.Statfs("/sys/fs/cgroup", &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}

// quiet keeps containerd's client from logging past the agent's log: all it has to say
// comes back as an error.
var quiet = func() *log.Entry {
	l := logrus.New()
	l.SetLevel(logrus.PanicLevel)
	return logrus.NewEntry(l)
}()

// in puts calls into the runtime's namespace.
func (r *Runtime) in(ctx context.Context) context.Context {
	return log.WithLogger(namespaces.WithNamespace(ctx, r.options.Namespace), quiet)
}

func (r *Runtime) bound(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(r.in(ctx), d)
}

// detached is for clearing up after ctx may have ended.
func (r *Runtime) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return r.bound(context.WithoutCancel(ctx), writeTimeout)
}

// dir is where a container's records are.
func (r *Runtime) dir(id string) record.Dir {
	return record.Dir(filepath.Join(r.options.StateDir, r.options.Namespace, id))
}
