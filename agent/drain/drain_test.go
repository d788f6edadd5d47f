package drain_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/heteroflow/node-agent/agent/drain"
	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/protocol"
)

const machine = "machine-a"

// node is an agent's switch over its state directory.
type node struct {
	*drain.Switch
	journal *journal.Journal
	dir     string
	logs    *observer.ObservedLogs
	resumed int
}

func start(t *testing.T, dir string) *node {
	t.Helper()
	j, err := journal.Open(dir, journal.Options{MachineID: machine})
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zapcore.InfoLevel)
	n := &node{journal: j, dir: dir, logs: logs}
	n.Switch = drain.New(j, zap.New(core), func() { n.resumed++ })
	t.Cleanup(n.stop)
	return n
}

func (n *node) stop() { _ = n.journal.Close() } // it holds nothing unsaved

var mark = drain.Mark{User: "alice", Reason: "new fans", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}

func set(t *testing.T, dir string, m drain.Mark) {
	t.Helper()
	if err := drain.Set(dir, machine, m); err != nil {
		t.Fatal(err)
	}
}

func clearMark(t *testing.T, dir string, want bool) {
	t.Helper()
	if was, err := drain.Clear(dir, machine); err != nil || was != want {
		t.Fatalf("clear: was there %t, %v; want %t", was, err, want)
	}
}

func TestAMarkHoldsFromTheMomentItIsThereUntilItIsTakenAway(t *testing.T) {
	n := start(t, t.TempDir())
	if n.On() || len(n.Look()) != 0 {
		t.Fatal("draining from the start")
	}
	set(t, n.dir, mark)
	if !n.On() {
		t.Error("not draining")
	}
	want := []protocol.Drain{{By: protocol.DrainByOperator, User: "alice", Reason: "new fans", Since: &mark.At}}
	for range 3 {
		if diff := cmp.Diff(want, n.Look()); diff != "" {
			t.Error(diff)
		}
	}
	if got := n.logs.FilterMessageSnippet("draining: nothing new").Len(); got != 1 {
		t.Errorf("said %d times", got)
	}
	clearMark(t, n.dir, true)
	if n.On() || len(n.Look()) != 0 || n.resumed != 1 {
		t.Errorf("on %t, resumed %d times", n.On(), n.resumed)
	}
	clearMark(t, n.dir, false)
}

func TestAMarkSurvivesTheAgent(t *testing.T) {
	n := start(t, t.TempDir())
	n.stop()
	set(t, n.dir, mark)
	if n = start(t, n.dir); !n.On() {
		t.Error("the next agent does not drain")
	}
}

func TestOnlyWhoSetADrainTakesItBack(t *testing.T) {
	n := start(t, t.TempDir())
	n.Server(true)
	set(t, n.dir, mark)
	if by := n.Look(); len(by) != 2 || by[0].By != protocol.DrainByServer || by[1].By != protocol.DrainByOperator {
		t.Errorf("drained by %+v", by)
	}
	n.Server(false)
	if !n.On() || n.resumed != 0 {
		t.Error("the control plane took the operator's mark back")
	}
	n.Server(true)
	clearMark(t, n.dir, true)
	if !n.On() || n.resumed != 0 {
		t.Error("the operator took the control plane's word back")
	}
	n.Server(false)
	if n.On() || n.resumed != 1 {
		t.Errorf("on %t, resumed %d times", n.On(), n.resumed)
	}
}

func TestAMarkThatCannotBeReadCounts(t *testing.T) {
	cases := map[string]func(file string) error{
		"empty":     func(file string) error { return os.WriteFile(file, nil, 0o600) },
		"cut":       func(file string) error { return os.WriteFile(file, []byte(`{"user":"al`), 0o600) },
		"too large": func(file string) error { return os.WriteFile(file, []byte(strings.Repeat(" ", 5000)), 0o600) },
		"a reason of two lines": func(file string) error {
			return os.WriteFile(file, []byte(`{"user":"a","reason":"1\n2"}`), 0o600)
		},
		"no file but a directory": func(file string) error { return os.Mkdir(file, 0o700) },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			n := start(t, t.TempDir())
			set(t, n.dir, mark)
			file := filepath.Join(n.dir, journal.OperatorDir, drain.FileName)
			if err := errors.Join(os.Remove(file), spoil(file)); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if by := n.Look(); len(by) != 1 || by[0].User != "" || !strings.Contains(by[0].Reason, "cannot be read") {
					t.Errorf("drained by %+v", by)
				}
			}
			if got := n.logs.FilterLevelExact(zapcore.ErrorLevel).Len(); got != 1 {
				t.Errorf("%d errors logged, want 1", got)
			}
		})
	}
}

func TestAReasonIsOneShortLine(t *testing.T) {
	for reason, ok := range map[string]bool{"": true, "new fans, ticket 7": true, "a\nb": false, "\x1b[2J": false, strings.Repeat("x", 257): false} {
		if err := (drain.Mark{Reason: reason}).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", reason, err)
		}
	}
}

func TestADirectoryWithoutAnAgentIsRefused(t *testing.T) {
	if err := drain.Set(t.TempDir(), machine, mark); !errors.Is(err, journal.ErrNoState) {
		t.Errorf("set: %v", err)
	}
	if _, err := drain.Clear(t.TempDir(), machine); !errors.Is(err, journal.ErrNoState) {
		t.Errorf("clear: %v", err)
	}
}
