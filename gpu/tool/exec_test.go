package tool

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// inChild makes the test binary print what it sees instead of running tests: the
// program that the host-root test runs.
const inChild = "TOOL_TEST_IN_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(inChild) != "" {
		entries, err := os.ReadDir("/")
		if err != nil {
			os.Exit(1)
		}
		for _, e := range entries {
			fmt.Fprintln(os.Stdout, e.Name())
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// script writes a shell script and returns a command that runs it.
func script(t *testing.T, lines string) Command {
	t.Helper()
	path := filepath.Join(t.TempDir(), "some-smi")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+lines+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return Command{Name: path, Deadline: 2 * time.Minute}
}

// up is a line of a script that says that all before it is done; isUp hears it.
const up = `; : >"$0.up"; `

func isUp(cmd Command) func() bool {
	return func() bool { _, err := os.Stat(cmd.Name + ".up"); return err == nil }
}

// eventually waits for a condition that another process brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func pidIn(t *testing.T, out []byte) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatalf("no pid in %q", out)
	}
	return pid
}

func TestRunReturnsOutputAndExitStatus(t *testing.T) {
	for _, c := range []struct {
		name, script   string
		exit           int
		stdout, stderr string
	}{
		{"a tool that succeeds", "echo rows", 0, "rows\n", ""},
		{"valid rows with a non-zero status", "echo rows; exit 14", 14, "rows\n", ""},
		{"an error on stderr", "echo no driver >&2; exit 9", 9, "", "no driver\n"},
		{"a tool that a signal ended", "kill -9 $$", 137, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, err := NewExec("").Run(t.Context(), script(t, c.script))
			if err != nil {
				t.Fatal(err)
			}
			if res.ExitCode != c.exit || string(res.Stdout) != c.stdout || string(res.Stderr) != c.stderr {
				t.Errorf("got %d, %q, %q", res.ExitCode, res.Stdout, res.Stderr)
			}
		})
	}
}

func TestAToolSeesTheCLocaleAnEmptyStdinAndNothingOfOurEnvironment(t *testing.T) {
	t.Setenv("HETEROFLOW_API_KEY", "secret")
	t.Setenv("LC_ALL", "zh_CN.UTF-8")
	cmd := script(t, "cat; env")
	cmd.Env = []string{"LD_LIBRARY_PATH=/opt/x/lib"}
	res, err := NewExec("").Run(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	out := string(res.Stdout)
	if strings.Contains(out, "secret") || strings.Contains(out, "zh_CN") {
		t.Errorf("our environment reached the tool:\n%s", out)
	}
	for _, want := range []string{"LC_ALL=C\n", "LD_LIBRARY_PATH=/opt/x/lib\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	cmd = script(t, "cat")
	cmd.Input = "get_server_list\n"
	if res, err = NewExec("").Run(t.Context(), cmd); err != nil || string(res.Stdout) != cmd.Input {
		t.Errorf("stdin: %q, %v", res.Stdout, err)
	}
}

// tools are scripts that say the number of a process they are or start. A stop ends them all.
var tools = []struct{ name, script string }{
	{"a tool that leaves on SIGTERM", "echo $$" + up + "exec sleep 300"},
	{"a tool that ignores SIGTERM", "trap '' TERM; echo $$" + up + "while :; do sleep 300; done"},
	{"a tool that waits for its child", "sleep 300 & echo $!" + up + "wait"},
}

func TestAToolPastItsDeadlineIsKilledWithWhatItStarted(t *testing.T) {
	for _, c := range tools {
		t.Run(c.name, func(t *testing.T) {
			e := NewExec("")
			really := e.kill
			var group atomic.Int64 // that the tool is in with what it starts
			e.kill = func(pgid int, sig syscall.Signal) {
				group.Store(int64(pgid))
				really(pgid, sig)
			}
			cmd := script(t, c.script)
			cmd.Deadline = 200 * time.Millisecond
			res, err := e.Run(t.Context(), cmd)
			if _, ok := errors.AsType[*TimeoutError](err); !ok || res.Duration < cmd.Deadline {
				t.Errorf("error %v after %s", err, res.Duration)
			}
			pgid := int(group.Load())
			if pgid == 0 {
				t.Fatal("nothing was killed")
			}
			eventually(t, "its processes are gone", func() bool { return gone(-pgid) })
		})
	}
}

func TestACancelledContextEndsTheToolAndWhatItStarted(t *testing.T) {
	for _, c := range tools {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := errors.New("shutting down")
			cmd := script(t, c.script)
			var res Result
			ended := make(chan error, 1)
			go func() {
				var err error
				res, err = NewExec("").Run(ctx, cmd)
				ended <- err
			}()
			eventually(t, "the tool has said its number", isUp(cmd))
			cancel(stop)
			if err := <-ended; !errors.Is(err, stop) {
				t.Fatalf("error %v", err)
			}
			pid := pidIn(t, res.Stdout)
			eventually(t, "the process is gone", func() bool { return gone(pid) })
		})
	}
}

func TestAFloodOfOutputIsCutAndDoesNotBlockTheTool(t *testing.T) {
	cmd := script(t, "yes row | head -c 5000000; yes err | head -c 5000000 >&2; exit 3")
	cmd.MaxOutput = 1000
	res, err := NewExec("").Run(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	if res.ExitCode != 3 || len(res.Stdout) != 1000 || len(res.Stderr) != 1000 || !res.Truncated {
		t.Errorf("status %d, %d and %d bytes, truncated %v", res.ExitCode, len(res.Stdout), len(res.Stderr), res.Truncated)
	}
}

func TestAGrandchildThatHoldsThePipeDoesNotBlock(t *testing.T) {
	for _, c := range []struct {
		name, script string
		killed       bool
	}{
		{"in the tool's group", "sleep 300 & echo $!", true},
		{"in a session of its own", `setsid sh -c 'echo $$` + up + `exec sleep 300' "$0" & until [ -e "$0.up" ]; do sleep 0.01; done`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			begin := time.Now()
			res, err := NewExec("").Run(t.Context(), script(t, c.script))
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took > 2*time.Minute {
				t.Errorf("took %s", took)
			}
			pid := pidIn(t, res.Stdout)
			if !c.killed {
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Errorf("it is not ours to kill, but gone: %v", err)
				}
			}
			eventually(t, "the grandchild is gone", func() bool { return gone(pid) })
		})
	}
}

// No test can make a process that the kernel does not end, so here the signals
// are kept from it: for Run that looks the same.
func TestAToolThatCannotBeKilledIsAbandonedAndNotStartedAgain(t *testing.T) {
	e := NewExec("")
	really := e.kill
	e.kill = func(int, syscall.Signal) {}
	starts := filepath.Join(t.TempDir(), "starts")
	cmd := script(t, "echo start >>"+starts+"; echo partial; exec sleep 300")
	cmd.Deadline = 200 * time.Millisecond

	res, err := e.Run(t.Context(), cmd)
	hung, ok := errors.AsType[*HungError](err)
	if !ok {
		t.Fatalf("error %v", err)
	}
	t.Cleanup(func() { really(hung.PID, syscall.SIGKILL) })
	if string(res.Stdout) != "partial\n" {
		t.Errorf("output %q", res.Stdout)
	}
	cmd.Deadline = time.Hour
	for range 3 {
		if _, err = e.Run(t.Context(), cmd); !errors.As(err, &hung) {
			t.Fatalf("second call: %v", err)
		}
	}
	if got, err := os.ReadFile(starts); err != nil || string(got) != "start\n" {
		t.Errorf("copies started: %q, %v", got, err)
	}
	if h := e.Hung(); len(h) != 1 || h[0].PID != hung.PID || h[0].Path != cmd.Name {
		t.Errorf("hung: %+v", h)
	}

	really(hung.PID, syscall.SIGKILL) // the driver lets go
	eventually(t, "the slot is free", func() bool { return len(e.Hung()) == 0 })
	e.kill, cmd.Deadline = really, 200*time.Millisecond
	if _, err = e.Run(t.Context(), cmd); errors.As(err, &hung) {
		t.Errorf("after it died: %v", err)
	}
}

func TestAToolThatIsNotThereIsNotInstalled(t *testing.T) {
	e := NewExec("")
	for _, name := range []string{"no-such-smi", "/no/such/dir/smi", t.TempDir()} {
		if _, err := e.Run(t.Context(), Command{Name: name}); !errors.Is(err, ErrNotInstalled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := FindFirst(e, "no-such-smi", "no-other-smi"); !errors.Is(err, ErrNotInstalled) {
		t.Error(err)
	}
	if name, err := FindFirst(e, "no-such-smi", "sh"); err != nil || name != "sh" {
		t.Error(name, err)
	}
}

func TestAFileThatIsNoProgramIsAnErrorAndNotMissing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broken-smi")
	if err := os.WriteFile(path, []byte("\x7fELF but not really"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := NewExec("").Run(t.Context(), Command{Name: path})
	if err == nil || errors.Is(err, ErrNotInstalled) {
		t.Errorf("error %v", err)
	}
}

func TestFindLooksOnPATHLast(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"only-here-smi", "sh"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	e := NewExec("")
	if got, err := e.Find("only-here-smi"); err != nil || got != filepath.Join(dir, "only-here-smi") {
		t.Error(got, err)
	}
	if got, err := e.Find("sh"); err != nil || got == filepath.Join(dir, "sh") {
		t.Error(got, err)
	}
}

// program puts the test binary below a root.
func program(t *testing.T, root, path string) {
	t.Helper()
	self, err := os.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	var buf bytes.Buffer
	if _, err := io.Copy(&buf, self); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, buf.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestBelowAHostRootToolsAreFoundAndRunAsTheHostSeesThem(t *testing.T) {
	root := t.TempDir()
	program(t, root, "/usr/lib/nvidia/current/nvidia-smi")
	for link, target := range map[string]string{ // as Debian's alternatives do
		"/usr/bin/nvidia-smi":          "/etc/alternatives/nvidia-smi",
		"/etc/alternatives/nvidia-smi": "../../usr/lib/nvidia/current/nvidia-smi",
		"/usr/bin/loop":                "/usr/bin/loop",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []string{"corex-4.9.0", "corex-4.10.0", "corex-4.3.0"} {
		program(t, root, "/usr/local/"+version+"/bin/ixsmi")
	}
	e := NewExec(root + "/")
	for name, want := range map[string]string{
		"nvidia-smi": "/usr/bin/nvidia-smi", "ixsmi": "/usr/local/corex-4.10.0/bin/ixsmi", "loop": "", "sh": "",
	} {
		if got, err := e.Find(name); got != want || (err == nil) != (want != "") {
			t.Errorf("Find(%s) = %q, %v; want %q", name, got, err, want)
		}
	}

	self, err := elf.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	if os.Getuid() != 0 || self.Section(".interp") != nil {
		t.Skip("running below a host root needs chroot(2), and here a static test binary")
	}
	res, err := e.Run(t.Context(), Command{Name: "nvidia-smi", Env: []string{inChild + "=1"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(res.Stdout); got != "etc\nusr\n" {
		t.Errorf("the tool's root holds %q", got)
	}
}

// BenchmarkRun also reports our own processor time, without the tool's.
func BenchmarkRun(b *testing.B) {
	e := NewExec("")
	before := ownCPU(b)
	for b.Loop() {
		if _, err := e.Run(b.Context(), Command{Name: "true"}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((ownCPU(b)-before).Microseconds())/float64(b.N), "own-cpu-µs/op")
}

func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
