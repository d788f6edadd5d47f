package runtimetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/runtime"
)

func processExists(pid int) bool {
	_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	return err == nil
}

// kill sends SIGKILL to the container's first process from outside.
func (s *suite) kill(t *testing.T, id string) {
	t.Helper()
	pid := s.inspect(t, id).PID
	if pid < 2 {
		t.Fatalf("the container has process %d", pid)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func (s *suite) testExit(t *testing.T) {
	t.Run("wait gives the exit code and the time of a container that ends meanwhile", func(t *testing.T) {
		c := s.start(t, s.spec("sleep", "500ms"))
		exit := s.wait(t, c.ID)
		wantCode(t, exit, 0)
		if ago := time.Since(exit.FinishedAt); ago < -time.Second || ago > patience {
			t.Errorf("finished %v ago", ago)
		}
		if exit.OOMKilled {
			t.Error("killed for memory")
		}
	})
	t.Run("another client gives the exit code of a container that ended before", s.exitKnownLater)
	t.Run("a killed container has code 137 and memory is not blamed", s.exitByKill)
	t.Run("waiting for a container that never started is a conflict", func(t *testing.T) {
		c := s.create(t, s.spec("exit", "0"))
		_, err := s.rt.Wait(t.Context(), c.ID)
		wantClass(t, err, runtime.ErrConflict)
	})
	t.Run("a wait ends with its context and the container runs on", s.waitEnds)
	t.Run("an ended container is not removed by itself", func(t *testing.T) {
		c, _ := s.finish(t, s.spec("exit", "0"))
		found, err := s.client(t).List(t.Context(), map[string]string{testLabel: s.run})
		if err != nil || len(found) != 1 || found[0].ID != c.ID || found[0].State != runtime.StateExited {
			t.Errorf("got %+v, %v", found, err)
		}
	})
}

func (s *suite) exitKnownLater(t *testing.T) {
	for _, code := range []int{0, 1, 42, 255} {
		c, first := s.finish(t, s.spec("exit", strconv.Itoa(code)))
		second, err := s.client(t).Wait(t.Context(), c.ID)
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, first, code)
		wantCode(t, second, code)
		if !second.FinishedAt.Equal(first.FinishedAt) {
			t.Errorf("finished at %v and at %v", first.FinishedAt, second.FinishedAt)
		}
		if now := s.inspect(t, c.ID); now.Exit == nil || now.State != runtime.StateExited || now.PID != 0 {
			t.Errorf("got %+v", now)
		} else {
			wantCode(t, *now.Exit, code)
		}
	}
}

func (s *suite) exitByKill(t *testing.T) {
	spec := s.spec("sleep", "10m")
	spec.Resources.MemoryBytes = 64 << 20
	c := s.start(t, spec)
	s.kill(t, c.ID)
	exit := s.wait(t, c.ID)
	wantCode(t, exit, 137)
	if exit.OOMKilled {
		t.Error("a kill is taken for a lack of memory")
	}
}

func (s *suite) waitEnds(t *testing.T) {
	c := s.start(t, s.spec("sleep", "10m"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := s.rt.Wait(ctx, c.ID)
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("got %v, want the context's error alone", err)
	}
	if now := s.inspect(t, c.ID); now.State != runtime.StateRunning {
		t.Errorf("got %+v", now)
	}
}

// memoryLimit lets the workload start and soon be too large.
const memoryLimit = 64 << 20

// eater is a program that takes more memory than it may have once there is the file.
func (s *suite) eater(t *testing.T, args ...string) (spec runtime.Spec, file string) {
	t.Helper()
	dir := t.TempDir()
	spec = s.spec(append([]string{"eat-memory", "--when", "/v/hungry"}, args...)...)
	spec.Mounts = []runtime.Mount{{Source: dir, Target: "/v"}}
	spec.Resources.MemoryBytes = memoryLimit
	return spec, filepath.Join(dir, "hungry")
}

// starve starts an eater and lets it take memory then: Docker's containerd begins to look out
// for a lack of it after the program has been started, and misses what comes before.
func (s *suite) starve(t *testing.T, spec runtime.Spec, file string) (runtime.Container, runtime.Exit) {
	t.Helper()
	c := s.start(t, spec)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return c, s.wait(t, c.ID)
}

func (s *suite) testMemory(t *testing.T) {
	t.Run("a program that outgrows its memory is killed and memory is blamed", func(t *testing.T) {
		spec, file := s.eater(t)
		c, exit := s.starve(t, spec, file)
		wantCode(t, exit, 137)
		if !exit.OOMKilled {
			t.Error("memory is not blamed")
		}
		again, err := s.client(t).Wait(t.Context(), c.ID)
		if err != nil || !again.OOMKilled {
			t.Errorf("another client has %+v, %v", again, err)
		}
	})
	t.Run("a child killed for memory is told although the program exits 0", func(t *testing.T) {
		spec, file := s.eater(t, "--child", "--exit", "0")
		c, exit := s.starve(t, spec, file)
		wantCode(t, exit, 0)
		if !exit.OOMKilled {
			t.Errorf("memory is not blamed; output:\n%s", s.logs(t, c.ID))
		}
	})
	t.Run("a lack of memory is forgotten by the next run", func(t *testing.T) {
		spec, file := s.eater(t)
		c, exit := s.starve(t, spec, file)
		if !exit.OOMKilled {
			t.Fatal("memory is not blamed for the first run")
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if err := s.rt.Start(t.Context(), c.ID); err != nil {
			t.Fatal(err)
		}
		s.kill(t, c.ID)
		exit = s.wait(t, c.ID)
		wantCode(t, exit, 137)
		if exit.OOMKilled {
			t.Errorf("memory is blamed for the second run; output:\n%s", strings.TrimSpace(string(s.logs(t, c.ID))))
		}
	})
}
