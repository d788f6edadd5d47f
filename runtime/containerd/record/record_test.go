package record_test

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/heteroflow/node-agent/runtime/containerd/record"
)

var at = time.Date(2026, 11, 29, 12, 0, 0, 123456789, time.UTC)

func TestARunAndItsExitAreReadBackAsWritten(t *testing.T) {
	dir := record.Dir(t.TempDir())
	run := record.Run{ID: "r1", StartedAt: at, IP: netip.MustParseAddr("10.1.2.3"), LogMaxBytes: 10, LogMaxFiles: 2}
	exit := record.Exit{Run: "r1", Code: 137, FinishedAt: at.Add(time.Second), OOMKilled: new(true)}
	if err := errors.Join(dir.Begin(run), dir.Sync(), dir.End(exit)); err != nil {
		t.Fatal(err)
	}
	gotRun, err := dir.Run()
	if diff := cmp.Diff(run, gotRun, cmpopts.EquateComparable(netip.Addr{})); diff != "" || err != nil {
		t.Errorf("run: %v\n%s", err, diff)
	}
	gotExit, err := dir.Exit("r1")
	if diff := cmp.Diff(exit, gotExit); diff != "" || err != nil {
		t.Errorf("exit: %v\n%s", err, diff)
	}
}

func TestARunThatTheDaemonWasNotAskedForHasNotRunOnThisBoot(t *testing.T) {
	cases := map[string]struct {
		run  record.Run
		want bool
	}{
		"one begun on this boot":             {record.Run{UnaskedOn: "now"}, false},
		"one begun on an earlier boot":       {record.Run{UnaskedOn: "then"}, true},
		"one that the daemon was asked for":  {record.Run{}, true}, // or an earlier agent's, or one that cannot be read
		"one whose start failed":             {record.Run{StartError: "no program"}, false},
		"one whose start failed a boot back": {record.Run{StartError: "no program", UnaskedOn: "then"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := record.Dir(t.TempDir())
			if err := dir.Begin(tc.run); err != nil {
				t.Fatal(err)
			}
			if run, err := dir.Run(); err != nil || run.MayHaveRun("now") != tc.want {
				t.Errorf("got %v, %v, want %v", run.MayHaveRun("now"), err, tc.want)
			}
		})
	}
}

func TestAnExitCountsOnlyForItsOwnRun(t *testing.T) {
	dir := record.Dir(t.TempDir())
	if err := dir.Begin(record.Run{ID: "r1"}); err != nil {
		t.Fatal(err)
	}
	if err := dir.End(record.Exit{Run: "r1", Code: 1}); err != nil {
		t.Fatal(err)
	}
	if err := dir.Begin(record.Run{ID: "r2"}); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Exit("r1"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a new run began, the exit of the old one: %v, want it forgotten", err)
	}
	// The log shim of the first run was slow.
	if err := dir.End(record.Exit{Run: "r1", Code: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Exit("r2"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a late record of run r1 was read as the exit of r2: %v", err)
	}
}

func TestWithoutARecordNothingIsInvented(t *testing.T) {
	dir := record.Dir(t.TempDir())
	if _, err := dir.Run(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("run: %v", err)
	}
	if _, err := dir.Exit("r"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("exit: %v", err)
	}
	if err := dir.Sync(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("sync: %v", err)
	}
}

func TestADamagedRecordIsAnErrorAndNotAMissingOne(t *testing.T) {
	dir := t.TempDir()
	for _, content := range []string{"", "{", "\x00\x00\x00\x00", `{"run":7}`} {
		if err := os.WriteFile(filepath.Join(dir, "run.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := record.Dir(dir).Run(); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: got %v", content, err)
		}
	}
}

func TestNoTemporaryFilesAreLeft(t *testing.T) {
	dir := t.TempDir()
	for range 3 {
		if err := errors.Join(record.Dir(dir).Begin(record.Run{ID: "r"}), record.Dir(dir).End(record.Exit{Run: "r"})); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("got %v, %v, want run.json and exit.json alone", entries, err)
	}
}
