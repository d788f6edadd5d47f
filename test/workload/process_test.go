package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/test/workload/report"
)

// waitLine reads until a line that contains want.
func waitLine(t *testing.T, lines *bufio.Scanner, want string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), want) {
			return
		}
	}
	t.Fatalf("output ended without %q: %v", want, lines.Err())
}

func start(t *testing.T, cmd *exec.Cmd) *bufio.Scanner {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(out)
}

func status(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		t.Fatal(err)
	}
	return exit.ExitCode()
}

func TestSIGTERMEndsEachModeInItsOwnWay(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		ready  string
		status int
	}{
		{"train saves and exits 143", []string{"train", "--steps", "1000000", "--checkpoint-every", "1000000", "--step-time", "1ms", "--checkpoint-dir", t.TempDir()}, "step 3/", 143},
		{"serve exits 0", []string{"serve", "--host", "127.0.0.1", "--port", "0"}, "serving", 0},
		{"eat-memory lets go of what it holds", []string{"eat-memory", "--mb", "1"}, "holding 1 MiB", 143},
		{"spam-logs stops", []string{"spam-logs"}, "line ", 143},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := workload(t, tt.args...)
			lines := start(t, cmd)
			waitLine(t, lines, tt.ready)
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			for lines.Scan() { // the pipe must not block the process
			}
			if got := status(t, cmd.Wait()); got != tt.status {
				t.Errorf("status = %d, want %d", got, tt.status)
			}
		})
	}
}

func TestInterruptedTrainingIsResumed(t *testing.T) {
	dir := t.TempDir()
	cmd := workload(t, "train", "--steps", "1000000", "--checkpoint-every", "1000000", "--step-time", "1ms", "--checkpoint-dir", dir)
	lines := start(t, cmd)
	waitLine(t, lines, "step 2/")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitLine(t, lines, "saved "+dir)
	saved := strings.TrimPrefix(lines.Text(), "saved ")
	if got := status(t, cmd.Wait()); got != exitTerminated {
		t.Fatalf("status = %d, want %d", got, exitTerminated)
	}
	t.Setenv(resumeVariable, saved)
	code, out, errs := call(t, "train", "--steps", "1", "--checkpoint-dir", dir)
	if code != 0 || !strings.Contains(out, "resumed from "+saved+" at step ") {
		t.Errorf("status %d, stdout %q, stderr %q", code, out, errs)
	}
}

func TestIgnoreSIGTERMLivesUntilSIGKILL(t *testing.T) {
	cmd := workload(t, "ignore-sigterm")
	lines := start(t, cmd)
	waitLine(t, lines, "ignoring")
	for _, want := range []string{"SIGTERM 1", "SIGTERM 2"} {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		waitLine(t, lines, want)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if cmd.Wait() == nil {
		t.Error("a killed process reported success")
	}
}

func TestParentOutlivesAKilledEater(t *testing.T) {
	cmd := workload(t, "eat-memory", "--child", "--mb", "1", "--exit", "9")
	lines := start(t, cmd)
	waitLine(t, lines, "holding 1 MiB")
	var child int
	if _, err := fmt.Sscanf(lines.Text(), "holding 1 MiB in process %d", &child); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitLine(t, lines, "child was killed")
	if got := status(t, cmd.Wait()); got != 9 {
		t.Errorf("status = %d, want 9", got)
	}
}

func TestPrintEnvKeepsEveryByteAndDuplicate(t *testing.T) {
	env := []string{asWorkload + "=1", "A=1", "ODD=\xff\xfe", "NL=a\nb", "A=2", "EMPTY=", "no equals sign"}
	want := make(report.Environment, len(env))
	for i, entry := range env {
		want[i] = report.Text(entry)
	}
	var got report.Environment
	if err := json.Unmarshal(outputWith(t, env, "print-env"), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("as JSON (-want +got):\n%s", diff)
	}
	raw := string(outputWith(t, env, "print-env", "--nul"))
	if diff := cmp.Diff(strings.Join(env, "\x00")+"\x00", raw); diff != "" {
		t.Errorf("as raw bytes (-want +got):\n%s", diff)
	}
}

// outputWith runs the workload with exactly env, which exec.Cmd would rid of
// its duplicates.
func outputWith(t *testing.T, env []string, args ...string) []byte {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	process, err := os.StartProcess("/proc/self/exe", append([]string{"workload"}, args...), &os.ProcAttr{
		Env:   env,
		Files: []*os.File{nil, writer, os.Stderr},
	})
	writer.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, readErr := io.ReadAll(reader)
	state, err := process.Wait()
	if err := errors.Join(readErr, err); err != nil || !state.Success() {
		t.Fatalf("workload %q: %v, %v", args, state, err)
	}
	return out
}

func TestForkBombCountsItsChildren(t *testing.T) {
	out, err := workload(t, "forkbomb", "--max", "20").Output()
	if err != nil {
		t.Fatal(err)
	}
	var got report.Forks
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(report.Forks{Started: 20, Max: 20}, got); diff != "" {
		t.Errorf("forks (-want +got):\n%s", diff)
	}
}

func TestTouchCreatesFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new")
	if code, _, errs := call(t, "touch", path, path); code != 0 {
		t.Fatalf("status %d: %s", code, errs)
	}
	if matches, err := filepath.Glob(path); err != nil || len(matches) != 1 {
		t.Errorf("created %q, %v", matches, err)
	}
}

func TestAwaitEndsWithItsFileOrASignal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if code := run(stopped, streams{io.Discard, io.Discard}, []string{"await", path}); code != exitTerminated {
		t.Errorf("stopped without a file: status %d", code)
	}
	ended := make(chan int)
	go func() { ended <- run(t.Context(), streams{io.Discard, io.Discard}, []string{"await", path}) }()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Error(err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("with a file: status %d", code)
	}
	if code, _, errs := call(t, "await", filepath.Join(path, "below")); code != exitError || errs == "" {
		t.Errorf("where no file can be: status %d, stderr %q", code, errs)
	}
}

func TestNoteTellsOfStartsAndEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	if code, _, errs := call(t, "note", path, "exit", "3"); code != 3 {
		t.Fatalf("status %d: %s", code, errs)
	}
	if code, _, errs := call(t, "note", path, "sleep", "1ms"); code != 0 {
		t.Fatalf("status %d: %s", code, errs)
	}
	got, err := os.ReadFile(path)
	if want := "start\nend 3\nstart\nend 0\n"; err != nil || string(got) != want {
		t.Errorf("noted %q, %v, want %q", got, err, want)
	}
	if code, _, _ := call(t, "note", path, "dance"); code != exitUsage {
		t.Errorf("an unknown mode: status %d", code)
	}
}
