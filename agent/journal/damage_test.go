package journal

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

var update = flag.Bool("update", false, "write a state tree of this release if there is none")

// stateWith is a state directory with one good record and one file under test.
func stateWith(t *testing.T, plant func(results string)) (dir string) {
	t.Helper()
	dir = t.TempDir()
	j := openJournal(t, dir, Options{})
	mustPut(t, openResults(t, j, Limits[result]{}), "good", result{Status: "completed"})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	plant(filepath.Join(dir, "results"))
	return dir
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func sample(t *testing.T, key string) []byte {
	t.Helper()
	data, err := marshalData(result{Status: "failed", LogTail: "tail"})
	if err != nil {
		t.Fatal(err)
	}
	file, err := record{Version: recordVersion, Kind: Results, Key: key, Seq: 7, SavedAt: testTime, Data: data}.encode()
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAFileCutAtAnyByteIsSetAside(t *testing.T) {
	cuts := 0
	dir := stateWith(t, func(results string) {
		for {
			key := fmt.Sprintf("cut-at-%d", cuts)
			whole := sample(t, key)
			if cuts == len(whole)-1 { // without its last byte, a newline, it is still whole
				return
			}
			write(t, filepath.Join(results, key+".json"), whole[:cuts])
			cuts++
		}
	})
	j := openJournal(t, dir, Options{})
	c := openResults(t, j, Limits[result]{})
	if diff := cmp.Diff([]string{"good"}, keysOf(t, c)); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if got := len(j.Quarantined()); got != cuts || cuts < 100 {
		t.Errorf("set aside %d of %d files", got, cuts)
	}
}

func TestDamagedFilesAreSetAsideReportedAndKept(t *testing.T) {
	replace := func(old, with string) []byte { return []byte(strings.Replace(string(sample(t, "bad")), old, with, 1)) }
	content := map[string][]byte{
		"binary garbage":             {0, 1, 2, 0xff},
		"a disk block of zeros":      make([]byte, 4096),
		"an HTML page":               []byte("<html>502</html>"),
		"JSON of another form":       []byte(`[1,2]`),
		"a record with a tail":       append(sample(t, "bad"), '{'),
		"a record of another key":    sample(t, "other"),
		"a record of another kind":   replace(`"results"`, `"slices"`),
		"a record of a later format": replace(`"version": 1`, `"version": 2`),
		"a record without version":   replace(`"version": 1,`, ``),
		"a record with null data":    []byte(`{"version":1,"kind":"results","key":"bad","data":null}`),
		"data of the wrong type":     replace(`"failed"`, `17`),
		"a file over the size limit": append(sample(t, "bad"), []byte(strings.Repeat(" ", 4096))...),
	}
	plant := map[string]func(path string) error{
		"a directory":      func(path string) error { return os.Mkdir(path, 0o700) },
		"a fifo":           func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a dangling link":  func(path string) error { return os.Symlink("nowhere", path) },
		"a link to a good": func(path string) error { return os.Symlink("good.json", path) },
	}
	for name, data := range content {
		plant[name] = func(path string) error { return os.WriteFile(path, data, 0o600) }
	}
	for name, plant := range plant {
		t.Run(name, func(t *testing.T) {
			dir := stateWith(t, func(results string) {
				if err := plant(filepath.Join(results, "bad.json")); err != nil {
					t.Fatal(err)
				}
			})
			core, logs := observer.New(zap.ErrorLevel)
			j := openJournal(t, dir, Options{Log: zap.New(core)})
			c := openResults(t, j, Limits[result]{MaxBytes: 4096})
			if diff := cmp.Diff([]string{"good"}, keysOf(t, c)); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			aside := filepath.Join(dir, "results", "bad.json.corrupt-20261129T123000Z")
			if q := j.Quarantined(); len(q) != 1 || q[0].Path != aside || q[0].Reason == "" {
				t.Errorf("quarantined = %+v", q)
			}
			if _, err := os.Lstat(aside); err != nil {
				t.Error(err)
			}
			if logs.Len() != 1 {
				t.Errorf("logged %v, want one event", logs.All())
			}
			mustPut(t, c, "bad", result{Status: "rebuilt"})
		})
	}
}

func TestAFileWithAnInvalidNameIsSetAside(t *testing.T) {
	dir := stateWith(t, func(results string) { write(t, filepath.Join(results, "-rf.json"), sample(t, "-rf")) })
	j := openJournal(t, dir, Options{})
	openResults(t, j, Limits[result]{})
	if len(j.Quarantined()) != 1 {
		t.Errorf("quarantined = %v", j.Quarantined())
	}
}

func TestACollectionThatIsAFileIsSetAside(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "results"), []byte("not a directory"))
	j := openJournal(t, dir, Options{})
	mustPut(t, openResults(t, j, Limits[result]{}), "a", result{})
	if _, err := os.Lstat(filepath.Join(dir, "results.corrupt-20261129T123000Z")); err != nil {
		t.Error(err)
	}
}

func TestEvidenceIsNeverOverwritten(t *testing.T) {
	j := openJournal(t, t.TempDir(), Options{})
	for range 3 { // all at the same second
		write(t, filepath.Join(j.Dir(), "results", "..", "x"), nil)
		j.quarantine(j.root, "", "x", os.ErrInvalid)
	}
	found, err := filepath.Glob(filepath.Join(j.Dir(), "x.corrupt-*"))
	if err != nil || len(found) != 3 {
		t.Errorf("found %v, %v, want 3 files", found, err)
	}
}

func TestAnUnfinishedWriteLeavesTheOldRecord(t *testing.T) {
	dir := stateWith(t, func(results string) {
		write(t, filepath.Join(results, ".good.json7361"), sample(t, "good")[:20])
		write(t, filepath.Join(results, ".new.json1"), sample(t, "new"))
		write(t, filepath.Join(results, "notes.txt"), []byte("by the operator"))
		write(t, filepath.Join(results, "old.json.corrupt-20250101T000000Z"), nil)
	})
	j := openJournal(t, dir, Options{})
	c := openResults(t, j, Limits[result]{})
	if got, ok, err := c.Get("good"); !ok || err != nil || got.Status != "completed" {
		t.Errorf("old record = %+v, %v, %v", got, ok, err)
	}
	entries, err := os.ReadDir(filepath.Join(dir, "results"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	want := []string{"good.json", "notes.txt", "old.json.corrupt-20250101T000000Z"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("left in the directory (-want +got):\n%s", diff)
	}
}

func TestFieldsOfANewerReleaseAreTolerated(t *testing.T) {
	file := strings.Replace(string(sample(t, "new")), `"data": {`, `"signature": "x", "data": {"future": [1],`, 1)
	dir := stateWith(t, func(results string) { write(t, filepath.Join(results, "new.json"), []byte(file)) })
	c := openResults(t, openJournal(t, dir, Options{}), Limits[result]{})
	if got, ok, err := c.Get("new"); !ok || err != nil || got.Status != "failed" {
		t.Errorf("record = %+v, %v, %v", got, ok, err)
	}
}

// Every state tree a release has written stays in testdata and must stay readable. The
// record in it is newer than any type of the agent: it holds the envelope still.
func TestStateOfEveryReleaseIsReadable(t *testing.T) {
	if *update {
		j := openJournal(t, t.TempDir(), Options{})
		mustPut(t, openResults(t, j, Limits[result]{}), "train-1", result{Status: "failed", LogTail: "tail"})
		if err := os.CopyFS("testdata/state-v1", os.DirFS(j.Dir())); err != nil {
			t.Fatal(err)
		}
	}
	trees, err := filepath.Glob("testdata/state-v*")
	if err != nil || len(trees) == 0 {
		t.Fatalf("no state trees: %v", err)
	}
	for _, tree := range trees {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(tree)); err != nil {
			t.Fatal(err)
		}
		j := openJournal(t, dir, Options{})
		c, err := NewCollection(j, Results, Limits[map[string]any]{})
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := c.Get("train-1")
		if diff := cmp.Diff(map[string]any{"status": "failed", "log_tail": "tail"}, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", tree, err, diff)
		}
		if j.Foreign() != "" || len(j.Quarantined()) != 0 {
			t.Errorf("%s: foreign %q, quarantined %v", tree, j.Foreign(), j.Quarantined())
		}
	}
}

func FuzzDecode(f *testing.F) {
	data := json.RawMessage(`{"status":"completed"}`)
	file, err := record{Version: recordVersion, Kind: Results, Key: "a", Seq: 1, SavedAt: testTime, Data: data}.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add(file[:len(file)/2])
	f.Add([]byte(`{"version":1,"kind":"results","key":"a","data":{}}`))
	f.Fuzz(func(t *testing.T, file []byte) {
		r, err := decode(Results, "a", file)
		if err != nil {
			return
		}
		again, err := r.encode()
		if err != nil {
			t.Fatalf("record %+v was read but cannot be written: %v", r, err)
		}
		back, err := decode(Results, "a", again)
		if err != nil {
			t.Fatalf("record cannot be read back: %v\n%s", err, again)
		}
		if back.Seq != r.Seq || !back.SavedAt.Equal(r.SavedAt) || !slices.Equal(compact(t, back.Data), compact(t, r.Data)) {
			t.Errorf("read back %+v, want %+v", back, r)
		}
	})
}

func compact(t *testing.T, raw json.RawMessage) []byte {
	t.Helper()
	data, err := json.Marshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
