package runtimetest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/runtime"
)

// absentID returns the id of a container that is gone.
func (s *suite) absentID(t *testing.T) string {
	t.Helper()
	c := s.create(t, s.spec("exit", "0"))
	if err := s.rt.Remove(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	return c.ID
}

func (s *suite) testLifecycle(t *testing.T) {
	t.Run("a started container runs and has a process", func(t *testing.T) {
		before := time.Now()
		c := s.start(t, s.spec("sleep", "10m"))
		now := s.inspect(t, c.ID)
		if now.State != runtime.StateRunning || now.PID == 0 || now.Exit != nil || now.StartError != "" {
			t.Errorf("got %+v", now)
		}
		if now.StartedAt.Before(before.Add(-time.Second)) || now.StartedAt.After(time.Now().Add(time.Second)) {
			t.Errorf("started at %v, want about %v", now.StartedAt, before)
		}
	})
	t.Run("a second start leaves the running process alone", func(t *testing.T) {
		c := s.start(t, s.spec("sleep", "10m"))
		first := s.inspect(t, c.ID)
		if err := s.rt.Start(t.Context(), c.ID); err != nil {
			t.Fatal(err)
		}
		if second := s.inspect(t, c.ID); second.PID != first.PID || !second.StartedAt.Equal(first.StartedAt) {
			t.Errorf("got %+v, want %+v", second, first)
		}
	})
	t.Run("a program that is not there is a start error and never ran", s.missingProgram)
	t.Run("an ended container stays and can be started again", s.runTwice)
	t.Run("eight containers run at once", s.runInParallel)
	t.Run("a container that is gone is not found", func(t *testing.T) {
		id := s.absentID(t)
		wantClass(t, s.rt.Start(t.Context(), id), runtime.ErrNotFound)
		wantClass(t, s.rt.Stop(t.Context(), id, time.Second), runtime.ErrNotFound)
		_, err := s.rt.Wait(t.Context(), id)
		wantClass(t, err, runtime.ErrNotFound)
		_, err = s.rt.Inspect(t.Context(), id)
		wantClass(t, err, runtime.ErrNotFound)
		_, err = s.rt.Logs(t.Context(), id, runtime.LogOptions{TailBytes: 1})
		wantClass(t, err, runtime.ErrNotFound)
	})
	t.Run("an empty or odd id never reaches the daemon", s.oddIDs)
	t.Run("the beginning of an id or a name is nobody's", func(t *testing.T) {
		c := s.create(t, s.spec("exit", "0"))
		for _, part := range []string{c.ID[:12], c.Name[:len(c.Name)-1]} {
			if _, err := s.rt.Inspect(t.Context(), part); err == nil {
				t.Errorf("%q was taken for %q", part, c.ID)
			}
		}
	})
}

func (s *suite) missingProgram(t *testing.T) {
	spec := s.spec()
	spec.Entrypoint = []string{"/no/such/program"}
	c := s.create(t, spec)
	err := s.rt.Start(t.Context(), c.ID)
	wantClass(t, err, runtime.ErrStartFailed)
	if err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("the error does not name the program: %v", err)
	}
	now := s.inspect(t, c.ID)
	if now.State != runtime.StateCreated || !now.StartedAt.IsZero() || now.PID != 0 || now.Exit != nil {
		t.Errorf("it seems to have run: %+v", now)
	}
	if !strings.Contains(now.StartError, "/no/such/program") {
		t.Errorf("start error %q", now.StartError)
	}
	_, err = s.rt.Wait(t.Context(), c.ID)
	wantClass(t, err, runtime.ErrConflict)
}

func (s *suite) runTwice(t *testing.T) {
	c, exit := s.finish(t, s.spec("exit", "--message", "hello", "3"))
	wantCode(t, exit, 3)
	first := s.inspect(t, c.ID)
	if first.State != runtime.StateExited {
		t.Fatalf("got %+v", first)
	}
	if err := s.rt.Start(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.wait(t, c.ID), 3)
	second := s.inspect(t, c.ID)
	if !second.StartedAt.After(first.StartedAt) || !second.Exit.FinishedAt.After(first.Exit.FinishedAt) {
		t.Errorf("the second run is not later: %+v, %+v", first, second)
	}
	if out := string(s.logs(t, c.ID)); strings.Count(out, "hello\n") != 2 {
		t.Errorf("output of both runs: %q", out)
	}
}

func (s *suite) runInParallel(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		spec := s.spec("exit", string(rune('0'+i)))
		wg.Go(func() {
			c, err := s.rt.Create(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			s.removeLater(t, c.ID)
			if err := s.rt.Start(t.Context(), c.ID); err != nil {
				t.Error(err)
				return
			}
			exit, err := s.rt.Wait(t.Context(), c.ID)
			if err != nil {
				t.Error(err)
				return
			}
			wantCode(t, exit, i)
		})
	}
	wg.Wait()
}

func (s *suite) oddIDs(t *testing.T) {
	for _, id := range []string{"", " ", "/", "..", "../../images/json", "a/b", "a?b", "ü", "\x00"} {
		wantClass(t, s.rt.Start(t.Context(), id), runtime.ErrInvalid)
		wantClass(t, s.rt.Stop(t.Context(), id, 0), runtime.ErrInvalid)
		wantClass(t, s.rt.Remove(t.Context(), id), runtime.ErrInvalid)
		_, err := s.rt.Wait(t.Context(), id)
		wantClass(t, err, runtime.ErrInvalid)
		_, err = s.rt.Inspect(t.Context(), id)
		wantClass(t, err, runtime.ErrInvalid)
		_, err = s.rt.Logs(t.Context(), id, runtime.LogOptions{TailBytes: 1})
		wantClass(t, err, runtime.ErrInvalid)
	}
}

func (s *suite) testStop(t *testing.T) {
	t.Run("a program that heeds the signal ends within its grace and is kept", s.stopGracefully)
	t.Run("a program that ignores the signal is killed after its grace", s.stopByKill)
	t.Run("no grace, or less, is a kill at once", s.stopAtOnce)
	t.Run("a stopped, ended or never started container stays as it is", s.stopAgain)
	t.Run("a stopped container runs again after a start", s.stopAndStart)
}

func (s *suite) stopGracefully(t *testing.T) {
	c := s.start(t, s.server())
	s.waitUntilServing(t, c.ID, 1)
	began := time.Now()
	if err := s.rt.Stop(t.Context(), c.ID, patience); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > patience/4 {
		t.Errorf("it took %v", took)
	}
	now := s.inspect(t, c.ID)
	if now.State != runtime.StateExited || now.Exit == nil {
		t.Fatalf("got %+v", now)
	}
	wantCode(t, *now.Exit, 0)
	if out := string(s.logs(t, c.ID)); !strings.HasSuffix(out, "stopped serving\n") {
		t.Errorf("output %q", out)
	}
}

func (s *suite) stopByKill(t *testing.T) {
	const grace = 2 * time.Second
	c := s.start(t, s.spec("ignore-sigterm"))
	s.waitForOutput(t, c.ID, "ignoring SIGTERM")
	began := time.Now()
	if err := s.rt.Stop(t.Context(), c.ID, grace); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < grace || took > grace+runtime.StopMargin {
		t.Errorf("it took %v with a grace of %v", took, grace)
	}
	exit := s.wait(t, c.ID)
	wantCode(t, exit, 137)
	if exit.OOMKilled {
		t.Error("a kill is taken for a lack of memory")
	}
	if out := string(s.logs(t, c.ID)); strings.Count(out, "ignored SIGTERM") != 1 {
		t.Errorf("output %q", out)
	}
}

func (s *suite) stopAtOnce(t *testing.T) {
	for _, grace := range []time.Duration{0, -time.Hour} {
		c := s.start(t, s.spec("ignore-sigterm"))
		s.waitForOutput(t, c.ID, "ignoring SIGTERM")
		began := time.Now()
		if err := s.rt.Stop(t.Context(), c.ID, grace); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > runtime.StopMargin {
			t.Errorf("it took %v", took)
		}
		wantCode(t, s.wait(t, c.ID), 137)
	}
}

func (s *suite) stopAgain(t *testing.T) {
	ended, _ := s.finish(t, s.spec("exit", "4"))
	created := s.create(t, s.spec("exit", "0"))
	for range 2 {
		for _, id := range []string{ended.ID, created.ID} {
			if err := s.rt.Stop(t.Context(), id, time.Second); err != nil {
				t.Error(err)
			}
		}
	}
	wantCode(t, *s.inspect(t, ended.ID).Exit, 4)
	if now := s.inspect(t, created.ID); now.State != runtime.StateCreated || now.Exit != nil {
		t.Errorf("got %+v", now)
	}
}

func (s *suite) stopAndStart(t *testing.T) {
	c := s.start(t, s.server())
	for run := range 2 {
		s.waitUntilServing(t, c.ID, run+1)
		if err := s.rt.Stop(t.Context(), c.ID, patience); err != nil {
			t.Fatal(err)
		}
		wantCode(t, s.wait(t, c.ID), 0)
		if err := s.rt.Start(t.Context(), c.ID); err != nil {
			t.Fatal(err)
		}
		if now := s.inspect(t, c.ID); now.State != runtime.StateRunning || now.Exit != nil {
			t.Errorf("got %+v", now)
		}
	}
}

func (s *suite) testRemove(t *testing.T) {
	gone := func(t *testing.T, c runtime.Container) {
		t.Helper()
		for range 2 {
			if err := s.rt.Remove(t.Context(), c.ID); err != nil {
				t.Fatal(err)
			}
		}
		for _, key := range []string{c.ID, c.Name} {
			_, err := s.rt.Inspect(t.Context(), key)
			wantClass(t, err, runtime.ErrNotFound)
		}
	}
	t.Run("a container that never ran is removed", func(t *testing.T) { gone(t, s.create(t, s.spec("exit", "0"))) })
	t.Run("an ended container is removed", func(t *testing.T) {
		c, _ := s.finish(t, s.spec("exit", "0"))
		gone(t, c)
	})
	t.Run("a running container is killed and removed", func(t *testing.T) {
		c := s.start(t, s.spec("ignore-sigterm"))
		pid := s.inspect(t, c.ID).PID
		gone(t, c)
		if processExists(pid) {
			t.Errorf("process %d is still there", pid)
		}
	})
	t.Run("the name of a removed container is free for another spec", func(t *testing.T) {
		spec := s.spec("exit", "0")
		gone(t, s.create(t, spec))
		spec.Args = []string{"exit", "1"}
		s.create(t, spec)
	})
	t.Run("eight removals at once all succeed", func(t *testing.T) {
		c := s.start(t, s.spec("sleep", "10m"))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := s.rt.Remove(t.Context(), c.ID); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
}
