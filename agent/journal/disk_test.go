package journal

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tinyDisk mounts a tmpfs of the given size for the test.
func tinyDisk(t *testing.T, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("a file system of its own is needed for a full or read-only disk: mount tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func TestAFullDiskKeepsRecordsInMemoryUntilThereIsSpace(t *testing.T) {
	dir := tinyDisk(t, 64<<10)
	j := openJournal(t, dir, Options{})
	c := openResults(t, j, Limits[result]{})
	mustPut(t, c, "old", result{Status: "before"})
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 128<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	for _, key := range []string{"old", "new"} {
		err := c.Put(key, result{Status: "after"})
		if !errors.Is(err, ErrNotDurable) || !errors.Is(err, ErrNoSpace) {
			t.Fatalf("Put(%s) = %v, want ErrNotDurable and ErrNoSpace", key, err)
		}
		if got, ok, err := c.Get(key); !ok || err != nil || got.Status != "after" {
			t.Errorf("Get(%s) = %+v, %v, %v: want it from memory", key, got, ok, err)
		}
	}
	if err := j.Flush(); !errors.Is(err, ErrNotDurable) || j.Unsaved() != 2 {
		t.Errorf("Flush = %v, unsaved %d, want ErrNotDurable and 2", err, j.Unsaved())
	}
	if data, err := os.ReadFile(filepath.Join(dir, "results/old.json")); err != nil || !strings.Contains(string(data), "before") {
		t.Errorf("the old file was lost: %v\n%s", err, data)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if err := j.Flush(); err != nil || j.Unsaved() != 0 {
		t.Fatalf("Flush with space = %v, unsaved %d", err, j.Unsaved())
	}
	_, c = reopen(t, j, Limits[result]{})
	for _, key := range []string{"old", "new"} {
		if got, ok, err := c.Get(key); !ok || err != nil || got.Status != "after" {
			t.Errorf("after restart Get(%s) = %+v, %v, %v", key, got, ok, err)
		}
	}
}

func TestACollectionStartsOnAFullDisk(t *testing.T) {
	dir := tinyDisk(t, 64<<10)
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 128<<10), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	j := openJournal(t, dir, Options{})
	c := openResults(t, j, Limits[result]{})
	if err := c.Put("a", result{}); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("Put = %v, want ErrNoSpace", err)
	}
	if err := os.Remove(filepath.Join(dir, "ballast")); err != nil {
		t.Fatal(err)
	}
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
}

func TestAReadOnlyDiskIsReadAndKeptInMemory(t *testing.T) {
	dir := tinyDisk(t, 1<<20)
	j := openJournal(t, dir, Options{})
	c := openResults(t, j, Limits[result]{})
	mustPut(t, c, "a", result{})
	mustPut(t, c, "b", result{})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	remount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(unix.MS_RDONLY)
	j = openJournal(t, dir, Options{})
	c = openResults(t, j, Limits[result]{})
	tasks, err := NewCollection(j, Tasks, Limits[result]{}) // its directory does not exist
	if err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"Put": c.Put("c", result{}), "Delete": c.Delete("a"), "first Put": tasks.Put("t", result{})} {
		if !errors.Is(err, ErrNotDurable) || !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s = %v, want ErrNotDurable and ErrReadOnly", what, err)
		}
	}
	if _, ok, err := c.Get("a"); ok || err != nil {
		t.Errorf("deleted record is back: %v, %v", ok, err)
	}
	if _, err := Open(dir, Options{}); !errors.As(err, new(*LockedError)) {
		t.Errorf("second agent on a read-only disk: %v, want LockedError", err)
	}
	remount(0)
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	_, c = reopen(t, j, Limits[result]{})
	if got := strings.Join(keysOf(t, c), " "); got != "b c" {
		t.Errorf("keys after restart = %q, want %q", got, "b c")
	}
}

func TestForeignStateThatCannotMoveIsRefused(t *testing.T) {
	dir := tinyDisk(t, 1<<20)
	j := openJournal(t, dir, Options{MachineID: "machine-b"})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{MachineID: "machine-a"}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("err = %v, want ErrReadOnly", err)
	}
}

const writerEnv = "JOURNAL_TEST_WRITER"

// TestWriterForKill is the victim of the test below: it writes without end and prints
// each generation once it is durable.
func TestWriterForKill(t *testing.T) {
	dir := os.Getenv(writerEnv)
	if dir == "" {
		t.Skip("runs as a child of TestKilledAtAnyMomentARecordIsWhole")
	}
	c := openResults(t, openJournal(t, dir, Options{}), Limits[result]{})
	for generation := 1; ; generation++ {
		mustPut(t, c, "a", result{Exit: &generation, LogTail: strings.Repeat("x", 8<<10)})
		fmt.Fprintln(os.Stdout, "durable", generation)
	}
}

func TestKilledAtAnyMomentARecordIsWhole(t *testing.T) {
	for round := range 8 {
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWriterForKill$", "-test.v")
		cmd.Env = append(os.Environ(), writerEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		promised := 0
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if _, err := fmt.Sscanf(lines.Text(), "durable %d", &promised); err == nil && promised == 20+round*7 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil || promised < 20 {
			t.Fatalf("writer ended by itself after generation %d: %v", promised, err)
		}
		j := openJournal(t, dir, Options{})
		c := openResults(t, j, Limits[result]{})
		got, ok, err := c.Get("a")
		if !ok || err != nil || len(got.LogTail) != 8<<10 || *got.Exit < promised {
			t.Errorf("after generation %d: %v, %v, generation %v: want it whole and not older", promised, ok, err, got.Exit)
		}
		if len(j.Quarantined()) != 0 {
			t.Errorf("quarantined = %v", j.Quarantined())
		}
	}
}

const putOnceEnv = "JOURNAL_TEST_PUT_ONCE"

// TestPutOnce is what the test below looks at.
func TestPutOnce(t *testing.T) {
	dir := os.Getenv(putOnceEnv)
	if dir == "" {
		t.Skip("runs as a child of TestARecordIsOnDiskBeforeItsNameIs")
	}
	mustPut(t, openResults(t, openJournal(t, dir, Options{}), Limits[result]{}), "a", result{})
}

// whole joins the calls of which strace prints the end apart, because another thread did
// something meanwhile.
func whole(trace string) string {
	begun := make(map[string]string) // by thread
	var lines strings.Builder
	for line := range strings.Lines(trace) {
		thread, call, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		call = strings.TrimLeft(call, " ") // thread numbers are padded
		if first, ok := strings.CutSuffix(call, " <unfinished ...>"); ok {
			begun[thread] = first
			continue
		}
		if _, rest, ok := strings.Cut(call, " resumed>"); ok && strings.HasPrefix(call, "<... ") {
			call = begun[thread] + rest
		}
		fmt.Fprintln(&lines, thread, call)
	}
	return lines.String()
}

// The order of the system calls is what survives a power loss, so it is read from the
// kernel, not from the code.
func TestARecordIsOnDiskBeforeItsNameIs(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skipf("strace shows the order: %v", err)
	}
	dir, trace := t.TempDir(), filepath.Join(t.TempDir(), "trace")
	cmd := exec.CommandContext(t.Context(), strace, "-f", "-y", "-o", trace, "-e", "trace=write,fsync,renameat,renameat2",
		os.Args[0], "-test.run=^TestPutOnce$")
	cmd.Env = append(os.Environ(), putOnceEnv+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("strace cannot trace here: %v: %s", err, out)
	}
	calls, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	results := regexp.QuoteMeta(filepath.Join(dir, "results"))
	order := regexp.MustCompile(`(?s)write\(\d+<` + results + `/\.a\.json\d+>.*fsync\(\d+<` + results + `/\.a\.json\d+>\) += 0.*` +
		`renameat2?\([^\n]*"\.a\.json\d+"[^\n]*"a\.json"[^\n]*= 0.*fsync\(\d+<` + results + `>\) += 0`)
	if !order.MatchString(whole(string(calls))) {
		t.Errorf("want write, fsync, rename, fsync of the directory; got:\n%s", calls)
	}
}
