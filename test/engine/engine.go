// Package engine starts container daemons of a test's own: a containerd, and a Docker
// daemon on top of it, with roots, state and sockets apart from those of the machine, so
// that a test may kill them, let them hang and start them again.
//
// Docker gets a bridge without rules for it, because a second daemon would take the first
// one's away: its containers have the host's network or none. It keeps its containers when it
// is started again (live-restore), unless the test wants otherwise. Close ends all that
// runs; only the goroutines that wait for the daemons' ends run meanwhile.
package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/test/daemon"
)

// Options make Engines.
type Options struct {
	// EndsWithDocker has Docker's containers end when their daemon is started again.
	EndsWithDocker bool
}

// Engines are one containerd and one Docker daemon.
type Engines struct {
	Containerd, Docker *Process

	dir    string // on disk
	run    string // in memory
	bridge string // Docker's; none yet when empty
}

// ContainerdSocket is where containerd listens.
func (e *Engines) ContainerdSocket() string { return filepath.Join(e.run, "containerd.sock") }

// DockerSocket is where Docker listens.
func (e *Engines) DockerSocket() string { return filepath.Join(e.run, "docker.sock") }

// Require starts the daemons, or skips the test and says why. Where the usual daemons are
// required these are too.
func Require(t testing.TB, o Options) *Engines {
	t.Helper()
	err := look("containerd", "dockerd", "runc", "ip")
	if os.Getuid() != 0 {
		err = errors.New("container daemons need root")
	}
	switch {
	case err == nil:
	case os.Getenv(daemon.RequireDockerVariable) == "1" || os.Getenv(daemon.RequireContainerdVariable) == "1":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	e, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Start starts the daemons.
func Start(ctx context.Context, o Options) (_ *Engines, err error) {
	e := &Engines{}
	defer func() { //nolint:contextcheck // what was started is taken down although ctx has ended
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if e.dir, err = os.MkdirTemp("", "heteroflow-engine-"); err != nil {
		return nil, err
	}
	if e.run, err = os.MkdirTemp("/run", "hf-engine-"); err != nil { // a socket's path has at most 107 bytes
		return nil, err
	}
	if err := errors.Join(e.configure(ctx), e.makeBridge(ctx)); err != nil {
		return nil, err
	}
	e.Containerd = &Process{
		name: "containerd", log: logFile(e.dir, "containerd"),
		args: []string{"containerd", "--config", filepath.Join(e.dir, "containerd.toml")},
		ping: func(ctx context.Context) error { return daemon.PingContainerd(ctx, e.ContainerdSocket()) },
	}
	e.Docker = &Process{
		name: "dockerd", log: logFile(e.dir, "dockerd"),
		args: []string{
			"dockerd", "--host", "unix://" + e.DockerSocket(), "--containerd", e.ContainerdSocket(),
			"--config-file", filepath.Join(e.dir, "docker.json"), // not the machine's
			"--data-root", e.dockerRoot(), "--exec-root", filepath.Join(e.run, "docker"), "--pidfile", filepath.Join(e.run, "docker.pid"),
			"--bridge", e.bridge, "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--live-restore=" + strconv.FormatBool(!o.EndsWithDocker),
		},
		ping: func(ctx context.Context) error { return daemon.PingDocker(ctx, "unix://"+e.DockerSocket()) },
	}
	if err := e.Containerd.Start(ctx); err != nil {
		return nil, err
	}
	return e, e.Docker.Start(ctx)
}

func (e *Engines) configure(ctx context.Context) error {
	version := "2"
	out, err := exec.CommandContext(ctx, "containerd", "--version").Output()
	if err != nil {
		return fmt.Errorf("ask containerd for its version: %w", err)
	}
	if strings.Contains(string(out), "containerd/v2") {
		version = "3"
	}
	config := fmt.Sprintf(`version = %s
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime",
  "io.containerd.nri.v1.nri", "io.containerd.podsandbox.controller.v1.podsandbox", "io.containerd.internal.v1.opt"]
[grpc]
  address = %q
[ttrpc]
  address = %q
`, version, filepath.Join(e.dir, "containerd"), filepath.Join(e.run, "containerd"), e.ContainerdSocket(), e.ContainerdSocket()+".ttrpc")
	return errors.Join(
		os.WriteFile(filepath.Join(e.dir, "containerd.toml"), []byte(config), 0o600),
		os.WriteFile(filepath.Join(e.dir, "docker.json"), []byte("{}"), 0o600),
	)
}

// Close ends the daemons and whatever they run, and removes all they have.
func (e *Engines) Close() error {
	var errs []error
	for _, p := range []*Process{e.Docker, e.Containerd} {
		if p != nil {
			errs = append(errs, p.stop())
		}
	}
	errs = append(errs, e.killShims(), e.removeBridge())
	mounts, err := e.Mounts()
	errs = append(errs, err)
	for _, point := range mounts {
		if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil && !errors.Is(err, syscall.EINVAL) { // it went with its task
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	for _, dir := range []string{e.dir, e.run} {
		if dir != "" {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// Left returns the shims and mounts that there are, and that idle daemons do not have.
func (e *Engines) Left() (found []string, err error) {
	shims, err := e.Shims()
	for pid, line := range shims {
		found = append(found, fmt.Sprintf("process %d: %s", pid, line))
	}
	mounts, mountsErr := e.Mounts()
	for _, point := range mounts {
		if point != e.dockerRoot() {
			found = append(found, "mount "+point)
		}
	}
	return found, errors.Join(err, mountsErr)
}

func (e *Engines) dockerRoot() string { return filepath.Join(e.dir, "docker") }

// Mounts returns what is mounted in the daemons' directories, the innermost first.
func (e *Engines) Mounts() ([]string, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(string(table)) {
		point := strings.Fields(line)[4]
		for _, dir := range []string{e.dir, e.run} {
			if dir != "" && strings.HasPrefix(point+"/", dir+"/") {
				found = append(found, point)
			}
		}
	}
	slices.Reverse(found)
	return found, nil
}

// Shims returns the processes of containerd's shims and the command line of each. Each
// serves one container.
func (e *Engines) Shims() (map[int]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	found := make(map[int]string)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil {
			continue // it has ended
		}
		if args := strings.Split(string(line), "\x00"); strings.Contains(args[0], "containerd-shim") && slices.Contains(args, e.ContainerdSocket()) {
			found[pid] = strings.Join(args, " ")
		}
	}
	return found, nil
}

// killShims ends the shims with their children, which containerd does not reach any more.
func (e *Engines) killShims() error {
	if e.run == "" {
		return nil
	}
	shims, err := e.Shims()
	for pid := range shims {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil {
			continue // it has ended by itself
		}
		for _, child := range append(strings.Fields(string(children)), strconv.Itoa(pid)) {
			if n, err := strconv.Atoi(child); err == nil {
				_ = syscall.Kill(n, syscall.SIGKILL) // it may have ended by itself
			}
		}
		for deadline := time.Now().Add(stopLimit); time.Now().Before(deadline) && syscall.Kill(pid, 0) == nil; {
			<-time.After(10 * time.Millisecond)
		}
	}
	return err
}
