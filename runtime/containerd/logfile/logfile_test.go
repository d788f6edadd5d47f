package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var epoch = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func newWriter(t *testing.T, maxBytes int64, maxFiles int) *Writer {
	w := NewWriter(filepath.Join(t.TempDir(), "output.log"), maxBytes, maxFiles)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func (w *Writer) tail(t *testing.T, n int64, since time.Time) string {
	t.Helper()
	out, err := Tail(w.path, w.maxFiles, n, since)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestOutputComesBackByteForByte(t *testing.T) {
	cases := map[string][]string{
		"whole lines":                 {"a\n", "b\n"},
		"a line in pieces":            {"a", "b", "c\n"},
		"no newline at the end":       {"prompt> "},
		"empty lines":                 {"\n\n\n"},
		"control and invalid bytes":   {"\x00\xff\r\n\x1b[1m", "é\n"},
		"a line longer than a record": {strings.Repeat("x", 3*maxPayload+1) + "\ny"},
		"what looks like a record":    {"2026-11-29T12:00:00.000000000Z stdout F x\n"},
		"many lines in one write":     {strings.Repeat("line\n", 5000)},
	}
	for name, writes := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWriter(t, 1<<20, 2)
			for i, s := range writes {
				w.Write([]Stream{Stdout, Stderr}[i%2], []byte(s))
			}
			if got, want := w.tail(t, 1<<20, time.Time{}), strings.Join(writes, ""); got != want {
				t.Errorf("got %d bytes %.80q, want %d bytes %.80q", len(got), got, len(want), want)
			}
		})
	}
}

func TestTheFilesNeverExceedTheirBound(t *testing.T) {
	for _, files := range []int{1, 2, 5} {
		w := newWriter(t, 8<<10, files)
		var all bytes.Buffer
		for i := range 4000 {
			line := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", rand.IntN(60)))
			all.WriteString(line)
			w.Write(Stdout, []byte(line))
		}
		names, err := filepath.Glob(w.path + "*")
		if err != nil || len(names) > files {
			t.Fatalf("%d files: got %v, %v", files, names, err)
		}
		for _, name := range names {
			if info, err := os.Stat(name); err != nil || info.Size() > 8<<10 {
				t.Errorf("%s: %v bytes, %v", name, info.Size(), err)
			}
		}
		got := w.tail(t, 1<<30, time.Time{})
		if !strings.HasSuffix(all.String(), got) || len(got) < (files-1)*2<<10 {
			t.Errorf("%d files: kept %d bytes, which are not the end of what was written", files, len(got))
		}
	}
}

func TestTailIsExactForEveryLength(t *testing.T) {
	w := newWriter(t, 8<<10, 20)
	var all []byte
	for i := range 600 {
		line := strings.Repeat(string(rune('a'+i%26)), i%37) + "\n"
		all = append(all, line...)
		w.Write(Stdout, []byte(line))
	}
	for n := 1; n < len(all)+100; n += 97 {
		if got, want := w.tail(t, int64(n), time.Time{}), all[max(0, len(all)-n):]; got != string(want) {
			t.Fatalf("tail of %d: got %d bytes that differ", n, len(got))
		}
	}
}

func TestSinceLeavesOutWhatWasWrittenBefore(t *testing.T) {
	w := newWriter(t, 4<<10, 50)
	now := epoch
	w.now = func() time.Time { return now }
	for i := range 500 {
		now = epoch.Add(time.Duration(i) * time.Second)
		w.Write(Stdout, fmt.Appendf(nil, "second %d\n", i))
	}
	if got := w.tail(t, 1<<20, epoch.Add(498*time.Second)); got != "second 498\nsecond 499\n" {
		t.Errorf("got %q", got)
	}
	if got := w.tail(t, 1<<20, epoch.Add(100*time.Second)); strings.Count(got, "\n") != 400 {
		t.Errorf("across files: got %d lines, want 400", strings.Count(got, "\n"))
	}
	if got := w.tail(t, 1<<20, now.Add(time.Hour)); got != "" {
		t.Errorf("from the future: got %q", got)
	}
}

func TestAFullDiskDropsOutputAndTellsHowMuch(t *testing.T) {
	w := newWriter(t, 1<<20, 2)
	w.Write(Stdout, []byte("before\n"))
	good := w.file
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.file = full
	w.Write(Stdout, []byte("lost 1\n"))
	w.Write(Stdout, []byte("lost 22\n"))
	w.file = good
	w.Write(Stdout, []byte("after\n"))
	if err := full.Close(); err != nil {
		t.Fatal(err)
	}

	got := w.tail(t, 1<<20, time.Time{})
	if !strings.HasPrefix(got, "before\n[15 bytes of output were dropped here: ") ||
		!strings.Contains(got, "no space left on device") || !strings.HasSuffix(got, "]\nafter\n") {
		t.Errorf("got %q", got)
	}
	w.Write(Stdout, []byte("again\n"))
	if got := w.tail(t, 1<<20, time.Time{}); strings.Count(got, "dropped") != 1 {
		t.Errorf("the marker was repeated: %q", got)
	}
}

func TestADirectoryThatIsMissingDropsOutputUntilItIsThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	w := NewWriter(filepath.Join(dir, "output.log"), 1<<20, 2)
	w.Write(Stdout, []byte("lost\n"))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.Write(Stdout, []byte("kept\n"))
	if got := w.tail(t, 1<<20, time.Time{}); !strings.Contains(got, "5 bytes of output were dropped") || !strings.HasSuffix(got, "kept\n") {
		t.Errorf("got %q", got)
	}
	if err := w.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestAWriterGoesOnAfterALineThatWasCutShort(t *testing.T) {
	w := newWriter(t, 1<<20, 2)
	torn := "2026-11-29T12:00:00.000000000Z stdout F whole\n2026-11-29T12:00:00.000000000Z std"
	if err := os.WriteFile(w.path, []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Write(Stdout, []byte("next\n"))
	if got := w.tail(t, 1<<20, time.Time{}); got != "whole\nnext\n" {
		t.Errorf("got %q", got)
	}
}

func TestReadingWhileTheFilesRotateNeverRepeatsALine(t *testing.T) {
	w := newWriter(t, 4<<10, 4)
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		defer close(done)
		for i := range 3000 {
			w.Write(Stdout, fmt.Appendf(nil, "%08d\n", i))
		}
	})
	defer wg.Wait()
	for {
		out, err := Tail(w.path, 4, 1<<20, time.Time{})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		previous := ""
		for line := range strings.Lines(string(out)) {
			if line <= previous {
				t.Fatalf("%q follows %q", line, previous)
			}
			previous = line
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func TestNoFileIsNoOutput(t *testing.T) {
	out, err := Tail(filepath.Join(t.TempDir(), "none"), 3, 100, time.Time{})
	if err != nil || len(out) != 0 {
		t.Errorf("got %q, %v", out, err)
	}
}

func FuzzTailOfAnyFile(f *testing.F) {
	f.Add([]byte("2026-11-29T12:00:00.000000000Z stdout F x\n"), int64(10))
	f.Add([]byte("garbage\n\n2026-11-29T12:00:00.000000000Z stderr P y\nhalf"), int64(1))
	f.Fuzz(func(t *testing.T, content []byte, n int64) {
		n = 1 + n&0xffff
		path := filepath.Join(t.TempDir(), "output.log")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := Tail(path, 2, n, time.Time{})
		if err != nil || int64(len(out)) > n || len(out) > len(content) {
			t.Fatalf("%d bytes of at most %d: %v", len(out), n, err)
		}
	})
}

func BenchmarkWriterOfShortLines(b *testing.B) {
	w := NewWriter(filepath.Join(b.TempDir(), "output.log"), 64<<20, 3)
	chunk := bytes.Repeat([]byte("step 100 loss 0.1234 lr 0.0001\n"), 1000)
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		w.Write(Stdout, chunk)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkTail64KiBOf64MiB(b *testing.B) {
	w := NewWriter(filepath.Join(b.TempDir(), "output.log"), 64<<20, 2)
	chunk := bytes.Repeat([]byte("step 100 loss 0.1234 lr 0.0001\n"), 1000)
	for range 900 {
		w.Write(Stdout, chunk)
	}
	for b.Loop() {
		if out, err := Tail(w.path, 2, 64<<10, time.Time{}); err != nil || len(out) != 64<<10 {
			b.Fatal(len(out), err)
		}
	}
}
