package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// result is a record like those the agent keeps.
type result struct {
	Status  string `json:"status"`
	Exit    *int   `json:"exit_code,omitempty"`
	LogTail string `json:"log_tail,omitempty"`
	Settled bool   `json:"settled,omitempty"`
}

var testTime = time.Date(2026, 11, 29, 12, 30, 0, 0, time.UTC)

func openJournal(t *testing.T, dir string, opts Options) *Journal {
	t.Helper()
	if opts.MachineID == "" {
		opts.MachineID = "machine-a"
	}
	opts.Now = func() time.Time { return testTime }
	j, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func openResults(t *testing.T, j *Journal, limits Limits[result]) *Collection[result] {
	t.Helper()
	c, err := NewCollection(j, Results, limits)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// reopen closes j and opens its directory again, as a restarted agent does.
func reopen(t *testing.T, j *Journal, limits Limits[result]) (*Journal, *Collection[result]) {
	t.Helper()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = openJournal(t, j.Dir(), Options{})
	return j, openResults(t, j, limits)
}

func mustPut(t *testing.T, c *Collection[result], key string, r result) {
	t.Helper()
	if err := c.Put(key, r); err != nil {
		t.Fatal(err)
	}
}

func keysOf(t *testing.T, c *Collection[result]) []string {
	t.Helper()
	all, err := c.All()
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, e := range all {
		keys = append(keys, e.Key)
	}
	return keys
}

func TestRecordsSurviveARestartInOrder(t *testing.T) {
	j := openJournal(t, t.TempDir(), Options{})
	c := openResults(t, j, Limits[result]{})
	code := 124
	want := result{Status: "failed", Exit: &code, LogTail: "<done> & \u2028 \x00 é"}
	mustPut(t, c, "zz", want)
	mustPut(t, c, "aa", result{Status: "completed"})
	mustPut(t, c, "gone", result{Status: "completed"})
	if err := c.Delete("gone"); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete("never-there"); err != nil {
		t.Fatal(err)
	}
	_, c = reopen(t, j, Limits[result]{})
	if diff := cmp.Diff([]string{"zz", "aa"}, keysOf(t, c)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	mustPut(t, c, "bb", result{})
	mustPut(t, c, "zz", want) // an update keeps its place
	if diff := cmp.Diff([]string{"zz", "aa", "bb"}, keysOf(t, c)); diff != "" {
		t.Errorf("keys after update (-want +got):\n%s", diff)
	}
	got, ok, err := c.Get("zz")
	if err != nil || !ok {
		t.Fatalf("Get = %v, %v", ok, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("value (-want +got):\n%s", diff)
	}
	if _, ok, err := c.Get("gone"); ok || err != nil {
		t.Errorf("deleted record: %v, %v", ok, err)
	}
}

func TestChangingAValueDoesNotChangeTheRecord(t *testing.T) {
	c := openResults(t, openJournal(t, t.TempDir(), Options{}), Limits[result]{})
	code := 1
	mustPut(t, c, "a", result{Exit: &code})
	code = 2
	got, _, err := c.Get("a")
	if err != nil {
		t.Fatal(err)
	}
	*got.Exit = 3
	again, _, err := c.Get("a")
	if err != nil || *again.Exit != 1 {
		t.Errorf("exit code = %d, %v, want 1", *again.Exit, err)
	}
}

func TestFilesArePrivateAndReadable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := openResults(t, openJournal(t, dir, Options{}), Limits[result]{})
	mustPut(t, c, "train-1", result{Status: "completed"})
	for path, want := range map[string]os.FileMode{"": 0o700, "results": 0o700, "results/train-1.json": 0o600, "agent.pid": 0o600} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%q: mode %v, %v, want %v", path, info.Mode().Perm(), err, want)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "results/train-1.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "version": 1,
  "kind": "results",
  "key": "train-1",
  "seq": 1,
  "saved_at": "2026-11-29T12:30:00Z",
  "data": {
    "status": "completed"
  }
}
`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}

func TestAKeyNeverLeavesItsDirectory(t *testing.T) {
	dir := t.TempDir()
	c := openResults(t, openJournal(t, dir, Options{}), Limits[result]{})
	for _, key := range []string{
		"", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", "-x", "a\x00b", "a\n", "ä", "a b", strings.Repeat("a", 64),
	} {
		if err := c.Put(key, result{}); !errors.Is(err, ErrInvalidKey) {
			t.Errorf("Put(%q) = %v, want ErrInvalidKey", key, err)
		}
	}
	for _, key := range []string{"a", "A.b_c-1", "a..b", "x.json", strings.Repeat("a", 63)} {
		mustPut(t, c, key, result{})
	}
	if n := c.Len(); n != 5 {
		t.Errorf("records = %d, want 5", n)
	}
}

func TestAValueThatCannotBeStoredChangesNothing(t *testing.T) {
	j := openJournal(t, t.TempDir(), Options{})
	c := openResults(t, j, Limits[result]{MaxBytes: 500})
	mustPut(t, c, "a", result{Status: "first"})
	if err := c.Put("a", result{LogTail: strings.Repeat("x", 500)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("err = %v, want ErrTooLarge", err)
	}
	if got, _, err := c.Get("a"); err != nil || got.Status != "first" {
		t.Errorf("record = %+v, %v", got, err)
	}
	pointers, err := NewCollection(j, Tasks, Limits[*result]{})
	if err != nil {
		t.Fatal(err)
	}
	if err := pointers.Put("a", nil); err == nil {
		t.Error("a null record was accepted")
	}
	floats, err := NewCollection(j, Node, Limits[func()]{})
	if err != nil {
		t.Fatal(err)
	}
	var unsupported *json.UnsupportedTypeError
	if err := floats.Put("a", func() {}); !errors.As(err, &unsupported) {
		t.Errorf("err = %v, want UnsupportedTypeError", err)
	}
}

func TestAFullCollectionGivesUpItsOldestSettledRecord(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	j := openJournal(t, t.TempDir(), Options{Log: zap.New(core)})
	limits := Limits[result]{Max: 3, Settled: func(r result) bool { return r.Settled }}
	c := openResults(t, j, limits)
	mustPut(t, c, "open-1", result{})
	mustPut(t, c, "settled-2", result{Settled: true})
	mustPut(t, c, "settled-3", result{Settled: true})
	mustPut(t, c, "open-4", result{})
	if diff := cmp.Diff([]string{"open-1", "settled-3", "open-4"}, keysOf(t, c)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if c.Evicted() != 1 || logs.FilterField(zap.String("key", "settled-2")).Len() != 1 {
		t.Errorf("evicted %d, logged %v: want it counted and logged", c.Evicted(), logs.All())
	}
	mustPut(t, c, "open-5", result{})
	if err := c.Put("open-6", result{}); !errors.Is(err, ErrFull) {
		t.Errorf("err = %v, want ErrFull", err)
	}
	mustPut(t, c, "open-1", result{Settled: true}) // an update needs no room
	_, c = reopen(t, j, limits)
	if diff := cmp.Diff([]string{"open-1", "open-4", "open-5"}, keysOf(t, c)); diff != "" {
		t.Errorf("keys after restart (-want +got):\n%s", diff)
	}
}

func TestALoweredLimitNeverDropsUnsettledRecords(t *testing.T) {
	j := openJournal(t, t.TempDir(), Options{})
	c := openResults(t, j, Limits[result]{})
	for i := range 5 {
		mustPut(t, c, fmt.Sprintf("r%d", i), result{Settled: i < 2})
	}
	_, c = reopen(t, j, Limits[result]{Max: 2, Settled: func(r result) bool { return r.Settled }})
	if c.Len() != 5 {
		t.Errorf("loading dropped records: %d left of 5", c.Len())
	}
	if err := c.Put("new", result{}); !errors.Is(err, ErrFull) {
		t.Errorf("err = %v, want ErrFull", err)
	}
	if diff := cmp.Diff([]string{"r2", "r3", "r4"}, keysOf(t, c)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestASecondAgentIsRefusedByName(t *testing.T) {
	dir := t.TempDir()
	j := openJournal(t, dir, Options{})
	_, err := Open(dir, Options{MachineID: "machine-a"})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Dir != dir {
		t.Fatalf("err = %v, want a LockedError with pid %d", err, os.Getpid())
	}
	if err := os.WriteFile(filepath.Join(dir, pidFile), []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = Open(dir, Options{}); !errors.As(err, &locked) || locked.PID != 0 {
		t.Errorf("err = %v, want a LockedError without pid", err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	openJournal(t, dir, Options{})
}

func TestACollectionIsOpenedOnceAndOnlyIfKnown(t *testing.T) {
	j := openJournal(t, t.TempDir(), Options{})
	openResults(t, j, Limits[result]{})
	for _, kind := range []Kind{Results, machine, "secrets", "../x", ""} {
		if _, err := NewCollection(j, kind, Limits[result]{}); err == nil {
			t.Errorf("collection %q opened", kind)
		}
	}
}

func TestAClosedJournalRefusesChanges(t *testing.T) {
	j := openJournal(t, t.TempDir(), Options{})
	c := openResults(t, j, Limits[result]{})
	mustPut(t, c, "a", result{})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := NewCollection(j, Tasks, Limits[result]{})
	for what, err := range map[string]error{"Put": c.Put("b", result{}), "Delete": c.Delete("a"), "NewCollection": err} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s = %v, want ErrClosed", what, err)
		}
	}
	if _, ok, err := c.Get("a"); !ok || err != nil {
		t.Errorf("Get after Close = %v, %v", ok, err)
	}
}

func TestConcurrentUse(t *testing.T) {
	j := openJournal(t, t.TempDir(), Options{})
	c := openResults(t, j, Limits[result]{Max: 20, Settled: func(result) bool { return true }})
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 25 {
				key := fmt.Sprintf("k%d", (worker*7+i)%30)
				if err := c.Put(key, result{Status: key}); err != nil {
					t.Error(err)
				}
				if got, ok, err := c.Get(key); err != nil || ok && got.Status != key {
					t.Errorf("Get(%s) = %+v, %v", key, got, err)
				}
				if i%5 == 0 {
					if err := errors.Join(c.Delete(key), j.Flush()); err != nil {
						t.Error(err)
					}
				}
				if _, err := c.All(); err != nil || c.Len() > 20 {
					t.Errorf("All: %v, %d records", err, c.Len())
				}
			}
		})
	}
	wg.Wait()
	want := keysOf(t, c)
	_, c = reopen(t, j, Limits[result]{})
	if diff := cmp.Diff(want, keysOf(t, c)); diff != "" {
		t.Errorf("disk differs from memory (-memory +disk):\n%s", diff)
	}
}

func BenchmarkPut(b *testing.B) {
	j, err := Open(b.TempDir(), Options{MachineID: "m"})
	if err != nil {
		b.Fatal(err)
	}
	c, err := NewCollection(j, Results, Limits[result]{})
	if err != nil {
		b.Fatal(err)
	}
	r := result{Status: "completed", LogTail: strings.Repeat("a line of output\n", 64)}
	for b.Loop() {
		if err := c.Put("train-1", r); err != nil {
			b.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
}
