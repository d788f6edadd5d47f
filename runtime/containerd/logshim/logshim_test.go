package logshim_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/runtime/containerd/logfile"
	"github.com/heteroflow/node-agent/runtime/containerd/logshim"
	"github.com/heteroflow/node-agent/runtime/containerd/record"
)

// The test binary is the log binary as well.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == logshim.Command {
		os.Exit(logshim.Main(os.Args[2]))
	}
	os.Exit(m.Run())
}

// process is a log shim as containerd's shim starts it.
type process struct {
	*exec.Cmd
	dir            string
	stdout, stderr *os.File // what the task writes to
}

func start(t *testing.T, dir string) *process {
	t.Helper()
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		return r, w
	}
	outR, outW := pipe()
	errR, errW := pipe()
	readyR, readyW := pipe()
	p := &process{Cmd: exec.Command(os.Args[0], logshim.Command, dir), dir: dir, stdout: outW, stderr: errW}
	p.Dir = t.TempDir() // a bundle without a shim
	p.Env = []string{"CONTAINER_ID=task-1", "CONTAINER_NAMESPACE=test"}
	p.ExtraFiles = []*os.File{outR, errR, readyW}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	for _, f := range p.ExtraFiles {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	ready, err := io.ReadAll(readyR)
	if err != nil || len(ready) != 1 {
		t.Fatalf("it is ready with %q, %v, want one byte and the end", ready, err)
	}
	return p
}

func (p *process) say(t *testing.T, f *os.File, text string) {
	t.Helper()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// finish closes the pipes, as the end of the task and of its shim do.
func (p *process) finish(t *testing.T) {
	t.Helper()
	for _, f := range []*os.File{p.stdout, p.stderr} {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := p.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

func (p *process) output(t *testing.T) string {
	t.Helper()
	out, err := logfile.Tail(record.Dir(p.dir).Logs(), 10, 1<<20, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func begin(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := record.Dir(dir).Begin(record.Run{ID: "r1", LogMaxBytes: 1 << 20, LogMaxFiles: 2}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestBothStreamsAreWrittenToTheEnd(t *testing.T) {
	p := start(t, begin(t))
	p.say(t, p.stdout, "out 1\n")
	p.say(t, p.stderr, "err 1\n")
	p.say(t, p.stdout, strings.Repeat("x", 50_000))
	p.finish(t)
	got := p.output(t)
	if !strings.Contains(got, "out 1\n") || !strings.Contains(got, "err 1\n") || strings.Count(got, "x") != 50_000 {
		t.Errorf("got %.100q of %d bytes", got, len(got))
	}
}

func TestSignalsLoseNoOutput(t *testing.T) {
	p := start(t, begin(t))
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		if err := p.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	p.say(t, p.stdout, "after the signals\n")
	p.finish(t)
	if got := p.output(t); got != "after the signals\n" {
		t.Errorf("got %q", got)
	}
}

func TestWithoutARecordOfTheRunOutputIsKeptAndTheLackIsTold(t *testing.T) {
	p := start(t, t.TempDir())
	p.say(t, p.stdout, "hello\n")
	p.finish(t)
	if got := p.output(t); !strings.Contains(got, "cannot be recorded") || !strings.HasSuffix(got, "hello\n") {
		t.Errorf("got %q", got)
	}
}

func TestATaskIsNeverHeldUpByADirectoryThatIsGone(t *testing.T) {
	p := start(t, filepath.Join(t.TempDir(), "gone"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			_, _ = p.stdout.WriteString(strings.Repeat("x", 10_000)) // 15 times what a pipe holds
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the task waits for its log")
	}
	_ = p.stdout.Close()
	_ = p.stderr.Close()
	if err := p.Wait(); err == nil {
		t.Error("it ends with 0 though output was lost")
	}
}

func TestStartedByHandItSaysWhoStartsIt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], logshim.Command, filepath.Join(t.TempDir(), "x"))
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "containerd's shim") {
		t.Errorf("got %v, %q", err, out)
	}
}
