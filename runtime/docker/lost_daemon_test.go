package docker_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/docker"
	"github.com/heteroflow/node-agent/runtime/docker/orphan"
	"github.com/heteroflow/node-agent/test/engine"
)

// ownDocker is a Docker that the test may kill, with the workload's image.
func ownDocker(t *testing.T) (e *engine.Engines, r *docker.Runtime, image string) {
	t.Helper()
	e = engine.Require(t, engine.Options{})
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	host := "unix://" + e.DockerSocket()
	r = connect(t, docker.Options{Host: host})
	return e, r, pullWorkload(t, r, host)
}

func TestARunThatIsLostWithADaemonIsEndedAndNothingOfItIsLeft(t *testing.T) {
	e, r, img := ownDocker(t)
	for name, victim := range map[string]*engine.Process{"Docker": e.Docker, "containerd": e.Containerd} {
		t.Run(name, func(t *testing.T) {
			id := lose(t, victim, r, img)
			if id == "" {
				t.Skip("the daemon was quicker than its end each time")
			}
			if err := r.Start(t.Context(), id); err != nil {
				t.Errorf("start: %v", err)
			}
			if now, err := r.Inspect(t.Context(), id); err != nil || now.State != runtime.StateExited || now.Exit == nil || now.Exit.Code != nil {
				t.Errorf("got %+v, %v, want one that ended nobody knows how", now, err)
			}
			if living := processesOf(t, id); len(living) > 0 {
				t.Errorf("processes %d are left", living)
			}
			if err := r.Remove(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
}

// lose returns a container of which Docker lost a run: the daemon was killed once it had been
// asked for the container's processes, and Docker has not stored that it runs. Where it had
// done so, or not asked yet, another is tried. It returns none if that is so each time.
func lose(t *testing.T, victim *engine.Process, r *docker.Runtime, img string) (id string) {
	t.Helper()
	for range 5 {
		id := create(t, r, img)
		killedWithinStart(t, victim, r, id)
		awaitStarts(t, r, img)
		now, err := r.Inspect(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if now.State != runtime.StateRunning && now.StartError == "" {
			return id
		}
		awaitRemoval(t, r, id)
	}
	return ""
}

func create(t *testing.T, r *docker.Runtime, img string) (id string) {
	t.Helper()
	c, err := r.Create(t.Context(), runtime.Spec{
		Name: fmt.Sprintf("lost-%d", time.Now().UnixNano()), Image: img, Args: []string{"sleep", "1h"},
		Network: runtime.Network{Mode: runtime.NetworkHost}, IPC: runtime.IPCPrivate, Logs: runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

// await tries until there is no error.
func await(t *testing.T, try func() error) {
	t.Helper()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-again.C {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// awaitStarts waits until Docker has noticed that its containerd is back, and starts
// containers. Until then the run of one may be lost that Docker has asked for where nobody is.
func awaitStarts(t *testing.T, r *docker.Runtime, img string) {
	t.Helper()
	await(t, func() error {
		id := create(t, r, img)
		defer awaitRemoval(t, r, id)
		failure := r.Start(t.Context(), id)
		now, err := r.Inspect(t.Context(), id)
		if err == nil && now.State != runtime.StateRunning {
			err = errors.Join(failure, fmt.Errorf("Docker does not start a container: got %+v", now))
		}
		return err
	})
}

// awaitRemoval removes the container, of which Docker may have missed the end: it listens to
// what containerd tells again only some time after it has noticed that it is back.
func awaitRemoval(t *testing.T, r *docker.Runtime, id string) {
	t.Helper()
	await(t, func() error { return r.Remove(t.Context(), id) })
}

// awaitStart starts the container, as often as the daemon is away.
func awaitStart(t *testing.T, r *docker.Runtime, id string) {
	t.Helper()
	var refused error
	await(t, func() error {
		err := r.Start(t.Context(), id)
		if !errors.Is(err, runtime.ErrUnavailable) {
			refused, err = err, nil
		}
		return err
	})
	if now, err := r.Inspect(t.Context(), id); refused != nil || err != nil || now.State != runtime.StateRunning {
		t.Errorf("got %+v, %v, %v", now, refused, err)
	}
}

// killedWithinStart starts a container, kills the daemon as soon as there is a process of
// it, and starts the daemon again.
func killedWithinStart(t *testing.T, victim *engine.Process, r *docker.Runtime, id string) {
	t.Helper()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_ = r.Start(t.Context(), id) // with any answer
	}()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for over := false; !over && len(processesOf(t, id)) == 0; {
		select {
		case <-answered:
			over = true
		case <-look.C:
		}
	}
	if err := victim.Kill(); err != nil {
		t.Fatal(err)
	}
	<-answered
	if err := victim.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAContainerdThatIsAwayFailsNoStart(t *testing.T) {
	e, r, img := ownDocker(t)
	id := create(t, r, img)
	if err := e.Containerd.Kill(); err != nil {
		t.Fatal(err)
	}
	// A start may be under way to it until Docker has noticed.
	for noticed := false; !noticed; {
		probe := create(t, r, img)
		noticed = r.Start(t.Context(), probe) != nil
		if err := r.Remove(t.Context(), probe); err != nil { // it never ran
			t.Fatal(err)
		}
	}
	for range 2 {
		wantClass(t, r.Start(t.Context(), id), runtime.ErrUnavailable)
	}
	_, err := r.Probe(t.Context())
	wantClass(t, err, runtime.ErrUnavailable)
	if err == nil || !strings.Contains(err.Error(), "containerd") {
		t.Errorf("the error does not say what is away: %v", err)
	}
	if err := e.Containerd.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitStart(t, r, id)
	if _, err := r.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	awaitRemoval(t, r, id)
}

func processesOf(t *testing.T, id string) []int {
	t.Helper()
	all, err := orphan.Scan("/proc")
	if err != nil {
		t.Fatal(err)
	}
	return all[id]
}
