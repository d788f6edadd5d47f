package runtimetest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/runtime"
)

func (s *suite) testLogs(t *testing.T) {
	t.Run("output of a running and of an ended container is read", func(t *testing.T) {
		c := s.start(t, s.spec("ignore-sigterm"))
		s.waitForOutput(t, c.ID, "ignoring SIGTERM\n")
		if err := s.rt.Stop(t.Context(), c.ID, 0); err != nil {
			t.Fatal(err)
		}
		if out := string(s.logs(t, c.ID)); !strings.HasPrefix(out, "ignoring SIGTERM\n") {
			t.Errorf("got %q", out)
		}
	})
	t.Run("a container that never ran has no output", func(t *testing.T) {
		if out := s.logs(t, s.create(t, s.spec("exit", "0")).ID); len(out) > 0 {
			t.Errorf("got %q", out)
		}
	})
	t.Run("a tail is exactly the last bytes", s.logTail)
	t.Run("bytes that are not UTF-8 come through", s.logBytes)
	t.Run("both streams are read, in the order they were written", s.logStreams)
	t.Run("since leaves out what is older", s.logSince)
	t.Run("a tail must be of one byte at least", func(t *testing.T) {
		c := s.create(t, s.spec("exit", "0"))
		for _, n := range []int64{0, -1} {
			_, err := s.rt.Logs(t.Context(), c.ID, runtime.LogOptions{TailBytes: n})
			wantClass(t, err, runtime.ErrInvalid)
		}
	})
	t.Run("a container that floods its log fills no disk", s.logLimits)
}

func (s *suite) logTail(t *testing.T) {
	c, _ := s.finish(t, s.spec("spam-logs", "--lines", "1000", "--width", "80", "--invalid-every", "0"))
	all := s.logs(t, c.ID)
	if len(all) != 1000*80 {
		t.Fatalf("all output is %d bytes, want %d", len(all), 1000*80)
	}
	for _, n := range []int{1, 79, 80, 81, 4096, len(all) - 1, len(all), len(all) + 1} {
		got, err := s.rt.Logs(t.Context(), c.ID, runtime.LogOptions{TailBytes: int64(n)})
		if err != nil {
			t.Fatal(err)
		}
		if want := all[len(all)-min(n, len(all)):]; !bytes.Equal(got, want) {
			t.Errorf("the last %d bytes: got %d bytes that end in %.100q", n, len(got), got)
		}
	}
}

func (s *suite) logBytes(t *testing.T) {
	c, _ := s.finish(t, s.spec("spam-logs", "--lines", "2", "--width", "30", "--invalid-every", "2"))
	want := "line 0000000001 .............\nline 0000000002 \xff \xe4\xbd ........\n"
	if out := string(s.logs(t, c.ID)); out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	// Of lines longer than any buffer on the way no byte is lost. Docker up to 24
	// forgets the newline behind each.
	const width = 100_000
	c, _ = s.finish(t, s.spec("spam-logs", "--lines", "2", "--width", fmt.Sprint(width), "--invalid-every", "0"))
	out := strings.ReplaceAll(string(s.logs(t, c.ID)), "\n", "")
	fill := strings.Repeat(".", width-len("line 0000000001 \n"))
	if want := "line 0000000001 " + fill + "line 0000000002 " + fill; out != want {
		t.Errorf("two lines of %d bytes became %d bytes", width, len(out))
	}
}

func (s *suite) logStreams(t *testing.T) {
	// It tells on stdout that it starts, a step later on stderr that it cannot save.
	c, exit := s.finish(t, s.spec("train", "--steps", "1", "--step-time", "2s", "--checkpoint-dir", "/proc/none"))
	if exit.Code == nil || *exit.Code == 0 {
		t.Errorf("exit %+v, want an error", exit)
	}
	out := string(s.logs(t, c.ID))
	begin, failure := strings.Index(out, "starting from scratch\n"), strings.Index(out, "workload train: ")
	if begin != 0 || failure < 0 {
		t.Errorf("got %q", out)
	}
}

func (s *suite) logSince(t *testing.T) {
	c := s.start(t, s.spec("spam-logs", "--rate", "5"))
	s.waitForOutput(t, c.ID, "0000000005")
	since := time.Now()
	s.waitForOutput(t, c.ID, fmt.Sprintf("%010d", 15))
	out, err := s.rt.Logs(t.Context(), c.ID, runtime.LogOptions{TailBytes: 1 << 20, Since: since})
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(out, []byte("0000000004")) || !bytes.Contains(out, []byte("0000000015")) {
		t.Errorf("since %v: got %q", since, out)
	}
	out, err = s.rt.Logs(t.Context(), c.ID, runtime.LogOptions{TailBytes: 1 << 20, Since: time.Now().Add(time.Hour)})
	if err != nil || len(out) > 0 {
		t.Errorf("since the future: got %q, %v", out, err)
	}
}

func (s *suite) logLimits(t *testing.T) {
	const lines, width = 80_000, 100
	spec := s.spec("spam-logs", "--lines", fmt.Sprint(lines), "--width", fmt.Sprint(width), "--invalid-every", "0")
	c, exit := s.finish(t, spec)
	wantCode(t, exit, 0)
	out, err := s.rt.Logs(t.Context(), c.ID, runtime.LogOptions{TailBytes: 2 * lines * width})
	if err != nil {
		t.Fatal(err)
	}
	most := spec.Logs.MaxBytes * int64(spec.Logs.MaxFiles)
	if size := int64(len(out)); size > most || size < width {
		t.Errorf("%d bytes are kept of %d written, want at most %d", size, lines*width, most)
	}
	if last := fmt.Sprintf("line %010d ", lines); !strings.Contains(string(out[max(0, len(out)-width):]), last) {
		t.Errorf("the end is not there: %q", out[max(0, len(out)-width):])
	}
}
