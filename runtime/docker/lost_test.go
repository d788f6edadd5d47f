package docker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/docker"
	"github.com/heteroflow/node-agent/runtime/docker/orphan"
	"github.com/heteroflow/node-agent/test/engine"
)

var lostID = strings.Repeat("0123456789abcdef", 4)

const (
	neverRan  = `"Status":"created","StartedAt":"0001-01-01T00:00:00Z","FinishedAt":"0001-01-01T00:00:00Z"`
	isRunning = `"Status":"running","Running":true,"Pid":7,"StartedAt":"2026-01-02T03:04:05Z","FinishedAt":"0001-01-01T00:00:00Z"`
	hasRun    = `"Status":"exited","ExitCode":3,"StartedAt":"2026-01-02T03:04:05Z","FinishedAt":"2026-01-02T03:04:06Z"`
)

// forgetful is a Docker daemon with one container, of which it says what it is told to.
type forgetful struct {
	root, proc string

	mu     sync.Mutex
	states []string // the next answer first; the last one stays
	asked  []string // of it, but for what it knows
}

func newForgetful(t *testing.T, states ...string) *forgetful {
	t.Helper()
	f := &forgetful{root: t.TempDir(), proc: t.TempDir(), states: states}
	if err := os.MkdirAll(filepath.Join(f.root, "containers", lostID), 0o700); err != nil {
		t.Fatal(err)
	}
	return f
}

// began leaves what a start that began then leaves first.
func (f *forgetful) began(t *testing.T, at time.Time) {
	t.Helper()
	name := filepath.Join(f.root, "containers", lostID, "hostname")
	if err := errors.Join(os.WriteFile(name, []byte("host\n"), 0o600), os.Chtimes(name, at, at)); err != nil {
		t.Fatal(err)
	}
}

// runs has a process that is in the cgroup of a container, until it is killed.
func (f *forgetful) runs(t *testing.T, id string) (ended <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "sleep", "1h")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = cmd.Wait() // says that it was killed
	}()
	t.Cleanup(func() { cancel(); <-done })
	dir := filepath.Join(f.proc, strconv.Itoa(cmd.Process.Pid))
	err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "cgroup"), []byte("0::/docker/"+id+"\n"), 0o600),
		os.Symlink(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid), filepath.Join(dir, "stat")))
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func (f *forgetful) state() (state string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	state = f.states[0]
	if len(f.states) > 1 {
		f.states = f.states[1:]
	}
	return state
}

func (f *forgetful) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

func (f *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.41")
	switch path := r.URL.Path; {
	case strings.HasSuffix(path, "/_ping"):
	case strings.HasSuffix(path, "/info"):
		_ = json.NewEncoder(w).Encode(map[string]any{"DockerRootDir": f.root})
	case strings.HasSuffix(path, "/containers/json"):
		_, _ = fmt.Fprintf(w, `[{"Id":%q,"Names":["/task"],"State":"created"}]`, lostID)
	case r.Method == http.MethodGet && strings.HasSuffix(path, "/json"):
		_, _ = fmt.Fprintf(w, `{"Id":%q,"Name":"/task","Config":{"Image":"busybox"},"State":{%s}}`, lostID, f.state())
	default:
		f.mu.Lock()
		f.asked = append(f.asked, r.Method)
		f.mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	}
}

func (f *forgetful) connect(t *testing.T) *docker.Runtime {
	t.Helper()
	return connect(t, docker.Options{Host: startProxy(t, f).host, Proc: f.proc})
}

// lately is after all that the daemon knows of its container, and before it is early.
var early, lately = time.Date(2026, 1, 2, 3, 4, 4, 0, time.UTC), time.Date(2026, 1, 2, 3, 5, 0, 0, time.UTC)

func isLost(c runtime.Container) bool {
	return c.State == runtime.StateExited && c.StartedAt.Equal(lately) && c.Exit != nil && c.Exit.Code == nil && c.Exit.Message != ""
}

func TestARunThatDockerBeganAndDoesNotKnowOfIsLost(t *testing.T) {
	cases := map[string]struct {
		states []string
		began  time.Time // zero: no start ever began
		want   runtime.State
		lost   bool
	}{
		"a first one":                           {[]string{neverRan}, lately, runtime.StateExited, true},
		"a later one":                           {[]string{hasRun}, lately, runtime.StateExited, true},
		"not where none was begun":              {[]string{neverRan}, time.Time{}, runtime.StateCreated, false},
		"not where it failed":                   {[]string{neverRan + `,"Error":"no program","ExitCode":127`}, lately, runtime.StateCreated, false},
		"not where a later one failed":          {[]string{hasRun + `,"Error":"no mount"`}, lately, runtime.StateExited, false},
		"not where Docker knows how it ended":   {[]string{hasRun}, early, runtime.StateExited, false},
		"not where it runs":                     {[]string{isRunning}, lately, runtime.StateRunning, false},
		"not where its start was still at work": {[]string{neverRan, isRunning}, lately, runtime.StateRunning, false},
		"nor a later one whose start was":       {[]string{hasRun, isRunning}, lately, runtime.StateRunning, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := newForgetful(t, tc.states...)
			if !tc.began.IsZero() {
				f.began(t, tc.began)
			}
			c, err := f.connect(t).Inspect(t.Context(), lostID)
			if err != nil || c.State != tc.want || isLost(c) != tc.lost {
				t.Errorf("got %+v with exit %+v, %v", c, c.Exit, err)
			}
		})
	}
}

func TestWhatRunsAndDockerDoesNotKnowOfIsEndedAndNotStartedAgain(t *testing.T) {
	for name, state := range map[string]string{"a first run": neverRan, "a later run": hasRun} {
		t.Run(name, func(t *testing.T) {
			f := newForgetful(t, state)
			f.began(t, lately)
			ended, another := f.runs(t, lostID), f.runs(t, strings.Repeat("f", 64))
			r := f.connect(t)
			if c, err := r.Inspect(t.Context(), lostID); err != nil || isLost(c) {
				t.Errorf("it runs, and is said to have ended: %+v, %v", c, err)
			}
			if err := r.Start(t.Context(), lostID); err != nil {
				t.Fatal(err)
			}
			<-ended
			if asked := f.requests(); len(asked) > 0 {
				t.Errorf("Docker was asked to %q", asked)
			}
			if c, err := r.Inspect(t.Context(), lostID); err != nil || !isLost(c) {
				t.Errorf("got %+v, %v", c, err)
			}
			if err := r.Start(t.Context(), lostID); err != nil || len(f.requests()) > 0 {
				t.Errorf("once it had ended: %v, and Docker was asked to %q", err, f.requests())
			}
			select {
			case <-another:
				t.Error("another container's process was killed")
			default:
			}
		})
	}
}

func TestWhatRunsAndDockerDoesNotKnowOfIsEndedBeforeItsContainerIsRemoved(t *testing.T) {
	f := newForgetful(t, neverRan)
	f.began(t, lately)
	ended := f.runs(t, lostID)
	if err := f.connect(t).Remove(t.Context(), lostID); err != nil {
		t.Fatal(err)
	}
	<-ended
	if asked := f.requests(); len(asked) != 1 || asked[0] != http.MethodDelete {
		t.Errorf("Docker was asked to %q", asked)
	}
}

func TestSweepEndsWhatRunsAndDockerDoesNotKnowOf(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		f := newForgetful(t, neverRan)
		f.began(t, lately)
		ended := f.runs(t, lostID)
		if err := f.connect(t).Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-ended
	})
	for name, states := range map[string][]string{"a start under way": {neverRan, isRunning}, "what it knows of": {isRunning}} {
		t.Run("but not "+name, func(t *testing.T) {
			f := newForgetful(t, states...)
			f.began(t, lately)
			ended := f.runs(t, lostID)
			if err := f.connect(t).Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			select {
			case <-ended:
				t.Error("it was killed")
			default:
			}
		})
	}
}

func TestWhatDoesNotEndIsNotStartedAgain(t *testing.T) {
	f := newForgetful(t, neverRan)
	f.began(t, lately)
	f.runs(t, lostID)
	stats, err := filepath.Glob(filepath.Join(f.proc, "*", "stat"))
	if err != nil || len(stats) != 1 {
		t.Fatal(stats, err)
	}
	// To the test's process file system it lives on.
	if err := errors.Join(os.Remove(stats[0]), os.WriteFile(stats[0], []byte("7 (x) D 1"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r := connect(t, docker.Options{Host: startProxy(t, f).host, Proc: f.proc, Timeouts: docker.Timeouts{StopMargin: 50 * time.Millisecond}})
	wantClass(t, r.Start(t.Context(), lostID), runtime.ErrUnavailable)
	wantClass(t, r.Remove(t.Context(), lostID), runtime.ErrStopTimeout)
	if asked := f.requests(); len(asked) > 0 {
		t.Errorf("Docker was asked to %q", asked)
	}
}

func TestWhereProcessesCannotBeSeenThatIsSaid(t *testing.T) {
	f := newForgetful(t, neverRan)
	f.began(t, lately)
	server := httptest.NewServer(f)
	defer server.Close()
	r := connect(t, docker.Options{Host: "tcp://" + server.Listener.Addr().String(), Proc: f.proc})
	c, err := r.Inspect(t.Context(), lostID)
	if err != nil || !isLost(c) || !strings.Contains(c.Exit.Message, "cannot be seen") {
		t.Errorf("got %+v with exit %+v, %v", c, c.Exit, err)
	}
}

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

// A Docker of the test's own is killed once containerd has been asked for the container's
// processes, and has not stored by then that it runs.
func TestARunThatAKilledDockerLostIsEndedAndNothingOfItIsLeft(t *testing.T) {
	e, r, img := ownDocker(t)
	for try := range 5 {
		c, err := r.Create(t.Context(), runtime.Spec{
			Name: fmt.Sprintf("lost-%d", try), Image: img, Args: []string{"sleep", "1h"}, Network: runtime.Network{Mode: runtime.NetworkHost},
			IPC: runtime.IPCPrivate, Logs: runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		killedWithinStart(t, e, r, c.ID)
		now, err := r.Inspect(t.Context(), c.ID)
		if err != nil {
			t.Fatal(err)
		}
		if now.State == runtime.StateRunning { // it had stored that after all
			if err := r.Remove(t.Context(), c.ID); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := r.Start(t.Context(), c.ID); err != nil {
			t.Errorf("start: %v", err)
		}
		if now, err := r.Inspect(t.Context(), c.ID); err != nil || now.State != runtime.StateExited || now.Exit == nil || now.Exit.Code != nil {
			t.Errorf("got %+v, %v, want one that ended nobody knows how", now, err)
		}
		if living := processesOf(t, c.ID); len(living) > 0 {
			t.Errorf("processes %d are left", living)
		}
		if err := r.Remove(t.Context(), c.ID); err != nil {
			t.Error(err)
		}
		return
	}
	t.Skip("Docker was quicker than its end each time")
}

// killedWithinStart starts a container, kills the daemon as soon as there is a process of
// it, and starts the daemon again.
func killedWithinStart(t *testing.T, e *engine.Engines, r *docker.Runtime, id string) {
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
	if err := e.Docker.Kill(); err != nil {
		t.Fatal(err)
	}
	<-answered
	if err := e.Docker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func processesOf(t *testing.T, id string) []int {
	t.Helper()
	all, err := orphan.Scan("/proc")
	if err != nil {
		t.Fatal(err)
	}
	return all[id]
}
