package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const note = "note.json"

// usedState is the state directory of an agent that runs on machine-a.
func usedState(t *testing.T) (dir string, j *Journal) {
	t.Helper()
	dir = t.TempDir()
	return dir, openJournal(t, dir, Options{MachineID: "machine-a"})
}

func leave(t *testing.T, dir string) {
	t.Helper()
	o, err := OpenOperator(dir, "machine-a")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(o.Write(note, []byte("x")), o.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestACommandLeavesTheRunningAgentANote(t *testing.T) {
	dir, j := usedState(t)
	if _, err := j.ReadOperator(note, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("before: %v", err)
	}
	leave(t, dir)
	if data, err := j.ReadOperator(note, 10); err != nil || string(data) != "x" {
		t.Fatalf("read %q, %v", data, err)
	}
	o, err := OpenOperator(dir, "machine-a")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if was, err := o.Remove(note); err != nil || was != want {
			t.Errorf("removed: %t, %v; want %t", was, err, want)
		}
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if _, err := j.ReadOperator(note, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after: %v", err)
	}
}

func TestANoteMovesAwayWithTheStateOfAnotherMachine(t *testing.T) {
	dir, j := usedState(t)
	leave(t, dir)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openJournal(t, dir, Options{MachineID: "machine-b"})
	if _, err := j.ReadOperator(note, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the clone goes by it: %v", err)
	}
	if _, err := os.Stat(filepath.Join(j.Foreign(), OperatorDir, note)); err != nil {
		t.Error(err)
	}
}

func TestACommandTouchesNoDirectoryButTheAgentsOwn(t *testing.T) {
	cases := map[string]struct {
		spoil func(t *testing.T, dir string)
		want  error
		says  string
	}{
		"one that is not there": {func(t *testing.T, dir string) { ok(t, os.RemoveAll(dir)) }, ErrNoState, "is not there"},
		"one that no agent used": {func(t *testing.T, dir string) {
			ok(t, os.RemoveAll(dir))
			ok(t, os.Mkdir(dir, 0o700))
		}, ErrNoState, "start the agent once"},
		"one of another user": {func(t *testing.T, dir string) {
			if os.Geteuid() != 0 {
				t.Skip("giving a directory away needs root")
			}
			ok(t, os.Chown(dir, 65534, 65534))
		}, ErrNotOurs, "id 65534"},
		"one of another machine": {func(t *testing.T, dir string) {
			ok(t, os.RemoveAll(dir))
			j, err := Open(dir, Options{MachineID: "machine-b"})
			ok(t, errors.Join(err, j.Close()))
		}, ErrNotOurs, "cloned disk"},
		"one whose owner cannot be read": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "machine", "identity.json"), []byte("{"))
		}, nil, "parse record"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir, j := usedState(t)
			ok(t, j.Close())
			tc.spoil(t, dir)
			o, err := OpenOperator(dir, "machine-a")
			if o != nil || err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says) {
				t.Fatalf("got %v, want %v that says %q", err, tc.want, tc.says)
			}
			if _, err := os.Stat(filepath.Join(dir, OperatorDir)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("it was touched: %v", err)
			}
		})
	}
}

func TestStateWithoutAMarkIsTheAgentsOwn(t *testing.T) {
	dir := t.TempDir()
	j, err := Open(dir, Options{})
	ok(t, err)
	leave(t, dir)
	ok(t, j.Close())
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
