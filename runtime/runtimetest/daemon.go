package runtimetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/runtime"
)

func (s *suite) testDaemon(t *testing.T) {
	t.Run("a probe tells who the daemon is", s.probe)
	t.Run("its name is one of the known", func(t *testing.T) {
		if name := s.rt.Name(); name != runtime.Docker && name != runtime.Containerd {
			t.Errorf("got %q", name)
		}
	})
	t.Run("a call whose context has ended returns its error", s.endedContext)
	t.Run("another client goes on where a closed one ended", s.secondClient)
	t.Run("the lives of containers leave no file or connection open", s.nothingStaysOpen)
}

// nothingStaysOpen lives six lives, in each of which a wait is given up.
func (s *suite) nothingStaysOpen(t *testing.T) {
	live := func() {
		c := s.start(t, s.spec("sleep", "10m"))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if _, err := s.rt.Wait(ctx, c.ID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for what runs: %v", err)
		}
		if err := s.rt.Stop(t.Context(), c.ID, 0); err != nil {
			t.Fatal(err)
		}
		s.wait(t, c.ID)
		s.logs(t, c.ID)
		if err := s.rt.Remove(t.Context(), c.ID); err != nil {
			t.Fatal(err)
		}
	}
	open := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(fds)
	}
	live() // as many connections as its client keeps
	before := open()
	const lives = 6
	for range lives {
		live()
	}
	eventually(t, "nothing stays open", func() bool { return open() < before+lives })
}

func (s *suite) probe(t *testing.T) {
	for range 2 {
		info, err := s.rt.Probe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cgroup := 2
		if cgroupV1() {
			cgroup = 1
		}
		if info.Version == "" || !filepath.IsAbs(info.RootDir) || !filepath.IsAbs(info.ImageDir) || info.CgroupVersion != cgroup {
			t.Errorf("got %+v", info)
		}
	}
}

func (s *suite) endedContext(t *testing.T) {
	c := s.create(t, s.spec("sleep", "10m"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, probe := s.rt.Probe(ctx)
	_, create := s.rt.Create(ctx, s.spec("exit", "0"))
	_, inspect := s.rt.Inspect(ctx, c.ID)
	_, list := s.rt.List(ctx, nil)
	for name, err := range map[string]error{
		"probe": probe, "create": create, "inspect": inspect, "list": list,
		"start": s.rt.Start(ctx, c.ID), "stop": s.rt.Stop(ctx, c.ID, 0), "remove": s.rt.Remove(ctx, c.ID),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if now := s.inspect(t, c.ID); now.State != runtime.StateCreated {
		t.Errorf("got %+v", now)
	}
}

func (s *suite) secondClient(t *testing.T) {
	first := s.New(t)
	spec := s.server()
	c, err := first.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	s.removeLater(t, c.ID)
	if err := errors.Join(first.Start(t.Context(), c.ID), first.Close()); err != nil {
		t.Fatal(err)
	}
	second := s.client(t)
	if now, err := second.Inspect(t.Context(), c.ID); err != nil || now.State != runtime.StateRunning {
		t.Fatalf("got %+v, %v", now, err)
	}
	again, err := second.Create(t.Context(), spec)
	if err != nil || again.ID != c.ID {
		t.Errorf("created again: %+v, %v", again, err)
	}
	s.waitUntilServing(t, c.ID, 1)
	if err := second.Stop(t.Context(), c.ID, patience); err != nil {
		t.Fatal(err)
	}
	exit, err := second.Wait(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, exit, 0)
}
