package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/heteroflow/node-agent/runtime/containerd"
	"github.com/heteroflow/node-agent/runtime/containerd/logshim"
	"github.com/heteroflow/node-agent/test/stage"
)

// installed is where the log shim and an agent lie side by side, once asked for.
var installed struct {
	once sync.Once
	dir  string
	err  error
}

// The test binary is also the agent whose log shim containerd's shims can start.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == logshim.Command {
		os.Exit(logshim.Main(os.Args[2]))
	}
	if err := forgetKilledRun(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := os.RemoveAll(installed.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		os.Exit(code)
	}))
}

// forgetKilledRun removes what an earlier run of these tests that was killed has left outside
// its own directories: runc's state of containers of the same names, and their cgroups.
func forgetKilledRun() error {
	errs := []error{os.RemoveAll(filepath.Join("/run/containerd/runc", namespace))}
	for _, pattern := range []string{"/sys/fs/cgroup/*/" + namespace + "/*", "/sys/fs/cgroup/" + namespace + "/*"} {
		groups, err := filepath.Glob(pattern)
		errs = append(errs, err)
		for _, group := range groups {
			if info, err := os.Stat(group); err == nil && info.IsDir() { // else it is a setting of the one above
				errs = append(errs, os.Remove(group))
			}
		}
	}
	return errors.Join(errs...)
}

// agentBinary is this test binary, with or without the log shim beside it.
func agentBinary(t testing.TB, alone bool) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if alone {
		return self
	}
	installed.once.Do(func() {
		dir, err := os.MkdirTemp("", "heteroflow-bin-") //nolint:usetesting // for all tests of the process
		installed.dir = dir
		if err == nil {
			err = errors.Join(os.Symlink(self, filepath.Join(dir, "agent")), stage.BuildLogShim(context.WithoutCancel(t.Context()), dir))
		}
		installed.err = err
	})
	if installed.err != nil {
		t.Fatal(installed.err)
	}
	return filepath.Join(installed.dir, "agent")
}

// flavour is a daemon and an OCI runtime to test with.
type flavour struct {
	name   string
	binDir string // where containerd and its shim are
	config string // the version of its configuration file
	oci    string // the OCI runtime; empty: the daemon's own
	alone  bool   // no log shim is installed: the agent is its own
}

// binariesVariable overrides where other versions than the system's are looked for.
const binariesVariable = "HFTEST_CONTAINERD_BINARIES"

// requireVariable makes it a failure, and not a reason to skip, that containerd 2 is missing.
const requireVariable = "HFTEST_REQUIRE_CONTAINERD2"

func flavours() []flavour {
	root := os.Getenv(binariesVariable)
	if root == "" {
		root = "/var/cache/heteroflow-test"
	}
	return []flavour{
		{name: "system-runc", binDir: "/usr/bin", config: "2"},
		{name: "system-crun", binDir: "/usr/bin", config: "2", oci: "crun", alone: true},
		{name: "1.7-runc", binDir: filepath.Join(root, "containerd-1.7"), config: "2"},
		{name: "2.4-runc", binDir: filepath.Join(root, "containerd-2.4.2"), config: "3"},
		{name: "2.4-crun", binDir: filepath.Join(root, "containerd-2.4.2"), config: "3", oci: "crun"},
	}
}

// eachFlavour runs a test against every daemon there is, of the given names or of all.
func eachFlavour(t *testing.T, test func(*testing.T, flavour), names ...string) {
	for _, f := range flavours() {
		if len(names) > 0 && !strings.Contains(strings.Join(names, " "), f.name) {
			continue
		}
		t.Run(f.name, func(t *testing.T) { test(t, f) })
	}
}

// daemon is a private containerd with root, state, socket and networks of its own.
type daemon struct {
	flavour
	dir, run string // on disk, in memory
	process  *exec.Cmd
	log      *os.File
	bridge   string
	subnet   netip.Prefix
}

var daemons atomic.Uint32

// hybrid is the cgroup v2 hierarchy beside version 1 that crun refuses to work with.
const hybrid = "/sys/fs/cgroup/unified"

// startDaemon starts a private containerd, which the test's end stops, or skips the test.
func startDaemon(t testing.TB, f flavour) *daemon {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("containerd needs root")
	}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2"} {
		if _, err := os.Stat(filepath.Join(f.binDir, program)); err != nil {
			missing := fmt.Sprintf("no %s: %v (%s says where to look, make containerd2 builds version 2)", f.name, err, binariesVariable)
			if f.config == "3" && os.Getenv(requireVariable) == "1" {
				t.Fatal(missing)
			}
			t.Skip(missing)
		}
	}
	if _, err := exec.LookPath(f.oci); f.oci != "" && err != nil {
		t.Skip(err)
	}
	run, err := os.MkdirTemp("/run", "hf-test-") //nolint:usetesting // a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	// Another test process may run beside this one.
	n := (uint32(os.Getpid())<<4 + daemons.Add(1)) % 1024
	d := &daemon{
		flavour: f, dir: t.TempDir(), run: run,
		bridge: fmt.Sprintf("hf-test-%d", n), subnet: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 214, byte(n / 4), byte(n % 4 * 64)}), 26),
	}
	// The daemon may get a mount namespace of its own: what the test mounts here must
	// reach it.
	command(t, "mount", "--bind", run, run)
	command(t, "mount", "--make-shared", run)
	t.Cleanup(func() { d.cleanUp(t) })
	d.writeConfig(t)
	d.start(t)
	return d
}

func command(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
}

func (d *daemon) socket() string { return filepath.Join(d.run, "containerd.sock") }

func (d *daemon) writeConfig(t testing.TB) {
	t.Helper()
	config := fmt.Sprintf(`version = %s
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime",
  "io.containerd.nri.v1.nri", "io.containerd.podsandbox.controller.v1.podsandbox", "io.containerd.internal.v1.opt"]
[grpc]
  address = %q
[ttrpc]
  address = %q
`, d.config, filepath.Join(d.dir, "root"), filepath.Join(d.run, "state"), d.socket(), d.socket()+".ttrpc")
	if err := os.WriteFile(filepath.Join(d.dir, "config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start starts the daemon, for the first time or after a kill, and waits for its answer.
func (d *daemon) start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{filepath.Join(d.binDir, "containerd"), "--config", filepath.Join(d.dir, "config.toml")}
	if _, err := os.Stat(hybrid); err == nil && d.oci == "crun" {
		args = append([]string{"unshare", "--mount", "--propagation", "slave", "sh", "-c", "umount " + hybrid + ` && exec "$@"`, "sh"}, args...)
	}
	d.process = exec.Command(args[0], args[1:]...)
	d.process.Env = append(os.Environ(), "PATH="+d.binDir+":"+os.Getenv("PATH"))
	d.process.Stdout, d.process.Stderr, d.log = log, log, log
	if err := d.process.Start(); err != nil {
		t.Fatal(err)
	}
	c := d.client(t)
	eventually(t, "containerd answers", func() bool {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		ok, err := c.IsServing(ctx)
		return ok && err == nil
	})
}

// kill ends the daemon as a crash does: its shims and tasks go on.
func (d *daemon) kill(t testing.TB) {
	t.Helper()
	if err := d.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = d.process.Wait() // says that it was killed
	if err := d.log.Close(); err != nil {
		t.Error(err)
	}
}

func (d *daemon) restart(t testing.TB) {
	t.Helper()
	d.kill(t)
	d.start(t)
}

// cleanUp stops everything that belongs to the daemon, whatever the test has left.
func (d *daemon) cleanUp(t testing.TB) {
	if t.Failed() {
		if log, err := os.ReadFile(filepath.Join(d.dir, "log")); err == nil {
			t.Logf("the daemon's log ends with:\n%s", log[max(0, len(log)-4000):])
		}
	}
	d.killTasks(t)
	d.killShims(t)
	if d.process != nil {
		_ = d.process.Process.Signal(syscall.SIGTERM) // it may have been killed already
		_ = d.process.Wait()
	}
	for _, mounted := range mountsBelow(t, d.run, d.dir) {
		if err := syscall.Unmount(mounted, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) { // it went with its task
			t.Errorf("unmount %s: %v", mounted, err)
		}
	}
	if err := os.RemoveAll(d.run); err != nil {
		t.Error(err)
	}
	_ = exec.Command("ip", "link", "delete", d.bridge).Run() // there is one only if a test made it
}

func (d *daemon) killTasks(t testing.TB) {
	c := d.client(t)
	ctx, cancel := context.WithTimeout(namespaces.WithNamespace(context.WithoutCancel(t.Context()), namespace), time.Minute)
	defer cancel()
	containers, err := c.Containers(ctx)
	if err != nil {
		t.Logf("look for tasks: %v", err)
	}
	for _, container := range containers {
		task, err := container.Task(ctx, nil)
		if err == nil {
			_, err = task.Delete(ctx, client.WithProcessKill)
		}
		if err != nil && !errdefs.IsNotFound(err) {
			t.Errorf("delete task %s: %v", container.ID(), err)
		}
	}
}

// killShims ends the shims, with their children, of tasks that a failed test has left
// without a container, which containerd does not reach.
func (d *daemon) killShims(t testing.TB) {
	for _, shim := range processesOf(t, "-address", d.socket()) {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", shim, shim))
		if err != nil {
			continue // it has ended by itself
		}
		for _, pid := range append(strings.Fields(string(children)), strconv.Itoa(shim)) {
			if n, err := strconv.Atoi(pid); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL) // it may have ended by itself
			}
		}
	}
}

// mountsBelow returns what is mounted in the directories, the innermost first.
func mountsBelow(t testing.TB, dirs ...string) (found []string) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		point := strings.Fields(line)[4]
		for _, dir := range dirs {
			if strings.HasPrefix(point+"/", dir+"/") {
				found = append([]string{point}, found...)
			}
		}
	}
	return found
}

const namespace = "hf-test"

func (d *daemon) options(t testing.TB) containerd.Options {
	t.Helper()
	return containerd.Options{
		Address: d.socket(), Namespace: namespace, OCIRuntime: d.oci, LogBinary: agentBinary(t, d.alone),
		StateDir: filepath.Join(d.dir, "agent"), RunDir: filepath.Join(d.run, "agent"), HostsDir: filepath.Join(d.dir, "certs.d"),
		Bridge: d.bridge, Subnet: d.subnet, Log: zaptest.NewLogger(t, zaptest.Level(zap.InfoLevel)),
	}
}

// connect makes a client, which the test's end closes.
func (d *daemon) connect(t testing.TB) *containerd.Runtime {
	t.Helper()
	return connect(t, d.options(t))
}

func connect(t testing.TB, options containerd.Options) *containerd.Runtime {
	t.Helper()
	r, err := containerd.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// client is containerd's own client, for what the Runtime cannot do.
func (d *daemon) client(t testing.TB) *client.Client {
	t.Helper()
	c, err := client.New(d.socket(), client.WithDefaultNamespace(namespace), client.WithTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// eventually fails the test unless the condition comes true in time.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	timeout := time.After(time.Minute)
	for !condition() {
		select {
		case <-ticker.C:
		case <-timeout:
			t.Fatalf("after a minute it is not so that %s", what)
		}
	}
}
