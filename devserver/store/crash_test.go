package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/protocol"
)

const crashDatabase = "HFTEST_CRASH_DATABASE"

// TestCrashChild is the process that gets killed: it writes until then, and
// says on stdout what was acknowledged.
func TestCrashChild(t *testing.T) {
	path := os.Getenv(crashDatabase)
	if path == "" {
		t.Skip("runs only as a child of the crash test")
	}
	ctx := context.Background()
	s, err := Open(ctx, path, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		id := fmt.Sprintf("t-%d-%d", os.Getpid(), n)
		if _, err := s.CreateTask(ctx, protocol.Task{ID: id, NodeID: "n", Status: protocol.StatusScheduled, Image: "x"}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(os.Stdout, "ack", id, protocol.StatusScheduled)
		for _, step := range []protocol.Transition{{From: "scheduled", To: "running"}, {From: "running", To: "completed"}} {
			if _, err := s.UpdateTask(ctx, id, protocol.TaskUpdate{NodeID: "n", FromStatus: step.From, Status: step.To}); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(os.Stdout, "ack", id, step.To)
		}
	}
}

// later says that one status cannot come before another in the child's run.
var later = map[protocol.TaskStatus]int{"scheduled": 1, "running": 2, "completed": 3}

func TestAcknowledgedWritesSurviveAKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plane.db")
	acknowledged := map[string]protocol.TaskStatus{}
	for round := range 4 {
		killAfter(t, path, 20+15*round, acknowledged)
		s, err := Open(t.Context(), path, func(string) {})
		if err != nil {
			t.Fatalf("after kill %d: %v", round, err)
		}
		var integrity string
		if err := s.r.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&integrity); err != nil || integrity != "ok" {
			t.Errorf("integrity %q, %v", integrity, err)
		}
		for id, status := range acknowledged {
			stored, err := s.Task(t.Context(), id)
			if err != nil {
				t.Fatalf("acknowledged task is gone: %v", err)
			}
			if later[stored.Status] < later[status] {
				t.Errorf("task %s is %s, %s was acknowledged", id, stored.Status, status)
			}
			// The step and its event are one transaction.
			events, err := s.History(t.Context(), id)
			if err != nil || len(events) != later[stored.Status] {
				t.Errorf("task %s is %s and has %d events, %v", id, stored.Status, len(events), err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(acknowledged) < 20 {
		t.Errorf("only %d tasks were written: the test shows little", len(acknowledged))
	}
}

// killAfter runs the child, kills it in the middle of its writes after so
// many acknowledgements, and notes every one that got out.
func killAfter(t *testing.T, path string, acks int, acknowledged map[string]protocol.TaskStatus) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestCrashChild$")
	child.Env = append(os.Environ(), crashDatabase+"="+path)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	seen := 0
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) != 3 || fields[0] != "ack" {
			continue
		}
		acknowledged[fields[1]] = protocol.TaskStatus(fields[2])
		if seen++; seen == acks {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = child.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != -1 {
		t.Fatalf("the child ended by itself after %d writes: %v", seen, err)
	}
}
