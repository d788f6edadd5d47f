package tool

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestALongLivedProcessAnswersLineByLineAndLeavesWhenItsInputEnds(t *testing.T) {
	p, err := NewExec("").Start(t.Context(), script(t, `echo ready >&2; while read line; do echo "got $line"; done; exit 7`))
	if err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(p)
	for _, word := range []string{"one", "two"} {
		if _, err := p.Write([]byte(word + "\n")); err != nil {
			t.Fatal(err)
		}
		if line, err := answers.ReadString('\n'); err != nil || line != "got "+word+"\n" {
			t.Fatalf("%q, %v", line, err)
		}
	}
	if err := p.in.Close(); err != nil { // as Close does first, but with all the time it takes
		t.Error(err)
	}
	<-p.Done()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if p.ExitCode() != 7 || string(p.Stderr()) != "ready\n" {
		t.Errorf("status %d, stderr %q", p.ExitCode(), p.Stderr())
	}
}

func TestALongLivedProcessThatSaysNothingBlocksNobody(t *testing.T) {
	p, err := NewExec("").Start(t.Context(), script(t, "trap '' TERM; while :; do sleep 300; done"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v", err)
	}
	if _, err := p.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "the process is gone", func() bool { return gone(p.PID()) })
}

func TestALongLivedProcessThatDoesNotDieIsAbandonedAndNotReplaced(t *testing.T) {
	e := NewExec("")
	really := e.kill
	e.kill = func(int, syscall.Signal) {}
	cmd := script(t, "exec sleep 300")
	p, err := e.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { really(p.PID(), syscall.SIGKILL); <-p.Done() })
	if err := p.Close(); !errors.As(err, new(*HungError)) {
		t.Fatalf("close: %v", err)
	}
	if _, err := e.Start(t.Context(), cmd); !errors.As(err, new(*HungError)) {
		t.Errorf("a second one: %v", err)
	}
}

func TestAProgramThatCannotBeStartedIsAnErrorOfStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(path, []byte("\x7fELF"), 0o700); err != nil {
		t.Fatal(err)
	}
	e := NewExec("")
	for range 2 { // the first failure has freed the slot
		if _, err := e.Start(t.Context(), Command{Name: path}); err == nil || errors.Is(err, ErrNotInstalled) {
			t.Fatalf("error %v", err)
		}
	}
}

func TestCopiesOfAToolTakeTurns(t *testing.T) {
	e := NewExec("")
	cmd := script(t, `test ! -e "$0.lock" && touch "$0.lock" && sleep 0.05 && rm "$0.lock" && echo alone`)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if res, err := e.Run(t.Context(), cmd); err != nil || string(res.Stdout) != "alone\n" {
				t.Errorf("%q, %v", res.Stdout, err)
			}
		})
	}
	wg.Wait()
}

func TestWhoWaitsForAToolThatGetsStuckIsToldSo(t *testing.T) {
	e := NewExec("")
	really := e.kill
	e.kill = func(int, syscall.Signal) {}
	starts := filepath.Join(t.TempDir(), "starts")
	first := script(t, "echo x >>"+starts+"; exec sleep 300")
	first.Deadline = 200 * time.Millisecond
	second := first
	second.Deadline = time.Minute
	errs := make(chan error, 1)
	go func() {
		_, err := e.Run(t.Context(), first)
		errs <- err
	}()
	eventually(t, "the first copy runs", func() bool { _, err := os.Stat(starts); return err == nil })
	_, err := e.Run(t.Context(), second)
	hung, ok := errors.AsType[*HungError](err)
	if !ok {
		t.Fatalf("who waited: %v", err)
	}
	if err := <-errs; !errors.As(err, new(*HungError)) {
		t.Errorf("who ran it: %v", err)
	}
	if raw, err := os.ReadFile(starts); err != nil || strings.Count(string(raw), "x") != 1 {
		t.Errorf("starts: %q, %v", raw, err)
	}
	really(hung.PID, syscall.SIGKILL)
	eventually(t, "the slot is free", func() bool { return len(e.Hung()) == 0 })
}
