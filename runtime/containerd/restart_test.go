package containerd_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd"
	"github.com/heteroflow/node-agent/runtime/containerd/logshim"
	"github.com/heteroflow/node-agent/test/image"
	"github.com/heteroflow/node-agent/test/registry"
)

// fixture is a daemon that has the workload image.
type fixture struct {
	*daemon
	*containerd.Runtime
	image string
	next  atomic.Int64
}

func setUp(t testing.TB, f flavour) *fixture {
	t.Helper()
	d := startDaemon(t, f)
	reg, err := registry.Start(registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := reg.Close(); err != nil {
			t.Error(err)
		}
	}()
	img, err := image.Build(t.Context(), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := reg.Push(img, "workload:v1")
	if err != nil {
		t.Fatal(err)
	}
	r := d.connect(t)
	if _, err := r.Pull(t.Context(), runtime.PullRequest{Ref: ref}); err != nil {
		t.Fatal(err)
	}
	return &fixture{daemon: d, Runtime: r, image: ref}
}

// spec is a container that runs the workload with the arguments.
func (f *fixture) spec(args ...string) runtime.Spec {
	return runtime.Spec{
		Name: "task-" + strconv.FormatInt(f.next.Add(1), 10), Image: f.image, Args: args,
		Network: runtime.Network{Mode: runtime.NetworkHost}, IPC: runtime.IPCPrivate,
		Logs: runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 2},
	}
}

func (f *fixture) create(t testing.TB, spec runtime.Spec) string {
	t.Helper()
	c, err := f.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

func (f *fixture) run(t testing.TB, spec runtime.Spec) string {
	t.Helper()
	id := f.create(t, spec)
	if err := f.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

func (f *fixture) inspect(t testing.TB, id string) runtime.Container {
	t.Helper()
	c, err := f.Inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// awaitEnd waits until a container's process has gone, without asking the daemon.
func awaitEnd(t testing.TB, pid int) {
	t.Helper()
	eventually(t, "the process has ended", func() bool {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	})
}

// awaitRecord waits until the log shim has recorded an exit. That takes milliseconds; the
// test must not be quicker.
func (f *fixture) awaitRecord(t testing.TB, id string) {
	t.Helper()
	eventually(t, "the exit is recorded", func() bool {
		_, err := os.Stat(filepath.Join(f.options(t).StateDir, namespace, id, "exit.json"))
		return err == nil
	})
}

func wantExit(t testing.TB, got *runtime.Exit, code int, oom bool, from, to time.Time) {
	t.Helper()
	switch {
	case got == nil || got.Code == nil:
		t.Errorf("got %+v, want code %d", got, code)
	case *got.Code != code || got.OOMKilled != oom:
		t.Errorf("got code %d, out of memory %v, want %d, %v", *got.Code, got.OOMKilled, code, oom)
	case got.FinishedAt.Before(from) || got.FinishedAt.After(to):
		t.Errorf("finished at %v, want it between %v and %v", got.FinishedAt, from, to)
	}
}

// A crash of the daemon at any moment of a task's end must not cost its exit code. The
// first two are what containerd 1.7 and 2 forget by themselves.
func TestAnExitIsExactAcrossARestartOfContainerd(t *testing.T) {
	eachFlavour(t, func(t *testing.T, fl flavour) {
		f := setUp(t, fl)
		const memory = 64 << 20
		hungry := f.spec("eat-memory")
		hungry.Resources.MemoryBytes = memory

		before := time.Now()
		ended := f.run(t, f.spec("exit", "41"))
		starved := f.run(t, hungry)
		f.awaitRecord(t, ended)
		f.awaitRecord(t, starved)
		whileDown := f.run(t, f.spec("sleep", "10m"))
		later := f.run(t, f.spec("ignore-sigterm"))
		watched := make(chan error, 1)
		go func() {
			_, err := f.Wait(t.Context(), later)
			watched <- err
		}()
		pid := f.inspect(t, whileDown).PID
		laterPID := f.inspect(t, later).PID
		eventually(t, "its program ignores the signal", func() bool {
			out, err := f.Logs(t.Context(), later, runtime.LogOptions{TailBytes: 1000})
			return err == nil && strings.Contains(string(out), "ignoring SIGTERM")
		})

		f.kill(t)
		if err := <-watched; !errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("a wait that lost its daemon: got %v, want ErrUnavailable and no code", err)
		}
		if _, err := f.Inspect(t.Context(), ended); !errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("inspect without a daemon: %v", err)
		}
		downFrom := time.Now()
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		awaitEnd(t, pid)
		f.awaitRecord(t, whileDown)
		downTo := time.Now()
		f.start(t)

		f.Runtime = f.connect(t) // the agent was restarted as well
		if now := f.inspect(t, later); now.State != runtime.StateRunning || now.PID != laterPID {
			t.Errorf("the task that goes on: %+v", now)
		}
		for id, want := range map[string]struct {
			code     int
			oom      bool
			from, to time.Time
		}{
			ended:     {41, false, before, downFrom},
			starved:   {137, true, before, downFrom},
			whileDown: {137, false, downFrom, downTo},
		} {
			inspected := f.inspect(t, id)
			wantExit(t, inspected.Exit, want.code, want.oom, want.from, want.to)
			waited, err := f.Wait(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			wantExit(t, &waited, want.code, want.oom, want.from, want.to)
		}
		if err := f.Stop(t.Context(), later, time.Nanosecond); err != nil {
			t.Fatal(err)
		}
		wantExit(t, f.inspect(t, later).Exit, 137, false, downTo, time.Now())
		out, err := f.Logs(t.Context(), later, runtime.LogOptions{TailBytes: 1000})
		if err != nil || !strings.Contains(string(out), "ignoring SIGTERM") {
			t.Errorf("its output: %q, %v", out, err)
		}
	})
}

// processesOf returns the processes that have all the words in their command line.
func processesOf(t testing.TB, words ...string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
next:
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(line), "\x00")
		for _, word := range words {
			found := false
			for _, arg := range args {
				found = found || arg == word
			}
			if !found {
				continue next
			}
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

func killOne(t testing.TB, pids []int) {
	t.Helper()
	if len(pids) != 1 {
		t.Fatalf("processes %v, want one", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestATaskWhoseShimWasKilledIsLostAndNotASuccess(t *testing.T) {
	eachFlavour(t, func(t *testing.T, fl flavour) {
		f := setUp(t, fl)
		id := f.run(t, f.spec("sleep", "10m"))
		pid := f.inspect(t, id).PID
		killOne(t, processesOf(t, "-id", id, "-address", f.socket()))
		awaitEnd(t, pid)
		var now runtime.Container
		eventually(t, "containerd has noticed", func() bool {
			now = f.inspect(t, id)
			return now.State == runtime.StateExited
		})
		if now.Exit == nil || now.Exit.Code != nil || now.Exit.Message == "" {
			t.Errorf("got exit %+v, want an unknown code and the reason", now.Exit)
		}
		if exit, err := f.Wait(t.Context(), id); err == nil && exit.Code != nil {
			t.Errorf("wait gives code %d", *exit.Code)
		}
		listed, err := f.List(t.Context(), nil)
		if err != nil || len(listed) != 1 || listed[0].State != runtime.StateExited {
			t.Errorf("list: %+v, %v", listed, err)
		}
		// containerd may still be clearing up after the shim, when the start is to be tried again.
		eventually(t, "it is started again", func() bool {
			err := f.Start(t.Context(), id)
			if err != nil && !errors.Is(err, runtime.ErrUnavailable) {
				t.Fatal(err)
			}
			return err == nil
		})
		if err := f.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}, "system-runc", "2.4-runc")
}

func TestAnExitIsKnownThoughTheLogShimWasKilled(t *testing.T) {
	eachFlavour(t, func(t *testing.T, fl flavour) {
		f := setUp(t, fl)
		id := f.run(t, f.spec("sleep", "10m"))
		killOne(t, processesOf(t, logshim.Command, filepath.Join(f.options(t).StateDir, namespace, id)))
		from := time.Now()
		if err := syscall.Kill(f.inspect(t, id).PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		exit, err := f.Wait(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		wantExit(t, &exit, 137, false, from, time.Now())
		// And it stays known when containerd has forgotten it.
		f.restart(t)
		wantExit(t, f.inspect(t, id).Exit, 137, false, from, time.Now())
	}, "system-runc", "2.4-runc")
}

func TestAContainerStartsAgainAfterTheDaemonForgotItsTask(t *testing.T) {
	eachFlavour(t, func(t *testing.T, fl flavour) {
		f := setUp(t, fl)
		id := f.run(t, f.spec("exit", "--message", "once", "3"))
		f.awaitRecord(t, id)
		f.restart(t)
		if err := f.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		exit, err := f.Wait(t.Context(), id)
		if err != nil || exit.Code == nil || *exit.Code != 3 {
			t.Errorf("got %+v, %v", exit, err)
		}
		out, err := f.Logs(t.Context(), id, runtime.LogOptions{TailBytes: 1000})
		if err != nil || string(out) != "once\nonce\n" {
			t.Errorf("output of both runs: %q, %v", out, err)
		}
	}, "system-runc", "2.4-runc")
}

// containerd leaves such a task out of its list: it must not be taken for one that ended.
func TestATaskWhoseShimHangsIsNotTakenForEnded(t *testing.T) {
	eachFlavour(t, func(t *testing.T, fl flavour) {
		f := setUp(t, fl)
		id := f.run(t, f.spec("sleep", "10m"))
		shims := processesOf(t, "-id", id, "-address", f.socket())
		if len(shims) != 1 {
			t.Fatalf("shims %v, want one", shims)
		}
		if err := syscall.Kill(shims[0], syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		thaw := func() {
			if err := syscall.Kill(shims[0], syscall.SIGCONT); err != nil {
				t.Error(err)
			}
		}
		listed, err := f.List(t.Context(), nil)
		if err == nil && (len(listed) != 1 || !listed[0].State.Alive()) || err != nil && !errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("list: %+v, %v", listed, err)
		}
		if got, err := f.Inspect(t.Context(), id); err == nil && !got.State.Alive() || err != nil && !errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("inspect: %+v, %v", got, err)
		}
		thaw()
		eventually(t, "it runs, once its shim answers again", func() bool { return f.inspect(t, id).State == runtime.StateRunning })
	}, "system-runc", "2.4-runc")
}
