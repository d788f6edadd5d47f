package journal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// clonedState is a directory whose state machine-b wrote.
func clonedState(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	j := openJournal(t, dir, Options{MachineID: "machine-b"})
	mustPut(t, openResults(t, j, Limits[result]{}), "theirs", result{Status: "completed"})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestForeignStateIsSetAsideAndNeverUsed(t *testing.T) {
	dir := clonedState(t)
	if err := os.Mkdir(filepath.Join(dir, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, dir, Options{})
	foreign := filepath.Join(dir, "foreign-20261129T123000Z")
	if j.Foreign() != foreign {
		t.Errorf("foreign = %q, want %q", j.Foreign(), foreign)
	}
	for _, path := range []string{foreign + "/results/theirs.json", foreign + "/machine/identity.json", dir + "/logs"} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	c := openResults(t, j, Limits[result]{})
	if c.Len() != 0 {
		t.Errorf("foreign records in use: %v", keysOf(t, c))
	}
	mustPut(t, c, "ours", result{})
	j, c = reopen(t, j, Limits[result]{})
	if diff := cmp.Diff([]string{"ours"}, keysOf(t, c)); diff != "" || j.Foreign() != "" {
		t.Errorf("after restart: foreign %q (-want +got):\n%s", j.Foreign(), diff)
	}
}

func TestACrashWhileForeignStateMovesLeavesItForeign(t *testing.T) {
	dir := clonedState(t)
	partial := filepath.Join(dir, "foreign-20261129T123000Z")
	if err := os.Mkdir(partial, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "results"), filepath.Join(partial, "results")); err != nil {
		t.Fatal(err)
	}
	j := openJournal(t, dir, Options{})
	if want := partial + "-2"; j.Foreign() != want {
		t.Errorf("foreign = %q, want %q", j.Foreign(), want)
	}
	if _, err := os.Stat(filepath.Join(partial, "results", "theirs.json")); err != nil {
		t.Error(err)
	}
}

func TestWithoutAnIdentityTheStateIsKept(t *testing.T) {
	dir := clonedState(t)
	j, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c := openResults(t, j, Limits[result]{}); c.Len() != 1 || j.Foreign() != "" {
		t.Errorf("%d records, foreign %q: want the state kept", c.Len(), j.Foreign())
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	// The unknown identity was not recorded over the known one.
	if j := openJournal(t, dir, Options{MachineID: "machine-b"}); j.Foreign() != "" {
		t.Errorf("own state set aside to %q", j.Foreign())
	}
}

func TestADamagedIdentityKeepsTheState(t *testing.T) {
	dir := clonedState(t)
	write(t, filepath.Join(dir, "machine", "identity.json"), nil)
	j := openJournal(t, dir, Options{})
	if c := openResults(t, j, Limits[result]{}); c.Len() != 1 || j.Foreign() != "" {
		t.Errorf("%d records, foreign %q: want the state kept", c.Len(), j.Foreign())
	}
	if len(j.Quarantined()) != 1 {
		t.Errorf("quarantined = %v", j.Quarantined())
	}
}
