package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestTheDatabaseIsDurableAndPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a ? b#c.db") // a name that a careless URI would cut
	s := open(t, path)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "5000", "foreign_keys": "1", "user_version": "1"} {
		var got string
		if err := s.w.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %q", pragma, got, err, want)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	if _, err := s.r.ExecContext(t.Context(), "DELETE FROM tasks"); err == nil {
		t.Error("a reading connection wrote")
	}
}

func TestADatabaseOfALaterReleaseIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.db")
	s := open(t, path)
	if _, err := s.w.ExecContext(t.Context(), "PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, func(string) {}); err == nil || !strings.Contains(err.Error(), "newer") {
		t.Errorf("got %v", err)
	}
}

func TestAFileThatIsNoDatabaseIsRefusedAndKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.db")
	junk := []byte(strings.Repeat("not a database\n", 100))
	if err := os.WriteFile(path, junk, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, func(string) {}); err == nil {
		t.Error("opened")
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(junk) {
		t.Error("the file was changed")
	}
}

func TestReopeningKeepsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.db")
	first, err := Open(t.Context(), path, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.CreateTask(t.Context(), protocol.Task{ID: "t", NodeID: "n", Status: protocol.StatusScheduled}); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path)
	if _, err := again.Task(t.Context(), "t"); err != nil {
		t.Error(err)
	}
	if change, err := again.Change(t.Context(), "n"); err != nil || change != 1 {
		t.Errorf("change number %d, %v", change, err)
	}
}

func TestTwoServersOnOneFileStillCompareAndSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.db")
	stores := []*Store{open(t, path), open(t, path)}
	for round := range 5 {
		id := fmt.Sprintf("t%d", round)
		if _, err := stores[0].CreateTask(t.Context(), protocol.Task{ID: id, NodeID: "n", Status: protocol.StatusScheduled}); err != nil {
			t.Fatal(err)
		}
		var won atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				_, err := stores[i%2].UpdateTask(t.Context(), id, protocol.TaskUpdate{NodeID: "n", FromStatus: "scheduled", Status: "running"})
				if err == nil {
					won.Add(1)
				} else if _, lost := errors.AsType[*ConflictError](err); !lost {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("%d won", won.Load())
		}
	}
}

func TestAFailedTransactionLeavesNothing(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "p.db"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.CreateTask(ctx, protocol.Task{ID: "t"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Task(t.Context(), "t"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := s.CreateTask(t.Context(), protocol.Task{ID: "t"}); err != nil {
		t.Errorf("the writer is stuck: %v", err)
	}
}

func TestIntentsOfANodeThatNeverComesBackAreBounded(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "p.db"))
	ctx := t.Context()
	if _, err := s.w.ExecContext(ctx, `INSERT INTO changes VALUES ('n', 20000)`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.w.ExecContext(ctx, `INSERT INTO intents VALUES ('n', 'old', 5), ('n', 'young', 19000), ('other', 'old', 5)`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateTask(ctx, protocol.Task{ID: "t", NodeID: "n", Status: protocol.StatusRunning}); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteTask(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]int{"n": 2, "other": 1} {
		if w, err := s.Waiting(ctx, node, 0); err != nil || w.Intents != want {
			t.Errorf("node %s: %d intents, %v, want %d", node, w.Intents, err, want)
		}
	}
}

func BenchmarkClaim(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "p.db"))
	n := 0
	for b.Loop() {
		id := fmt.Sprintf("t%d", n)
		n++
		if _, err := s.CreateTask(b.Context(), protocol.Task{ID: id, NodeID: "n", Status: protocol.StatusScheduled}); err != nil {
			b.Fatal(err)
		}
		if _, err := s.UpdateTask(b.Context(), id, protocol.TaskUpdate{NodeID: "n", FromStatus: "scheduled", Status: "running"}); err != nil {
			b.Fatal(err)
		}
	}
}
