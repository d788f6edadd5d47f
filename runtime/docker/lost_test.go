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
)

var lostID = strings.Repeat("0123456789abcdef", 4)

const (
	neverRan  = `"Status":"created","StartedAt":"0001-01-01T00:00:00Z","FinishedAt":"0001-01-01T00:00:00Z"`
	isRunning = `"Status":"running","Running":true,"Pid":7,"StartedAt":"2026-01-02T03:04:05Z","FinishedAt":"0001-01-01T00:00:00Z"`
	noAnswer  = `,"Error":"transport is closing: unavailable","ExitCode":128`
	notAsked  = `,"Error":"connection error: desc = \"transport: Error while dialing dial unix /run/containerd/containerd.sock: connect: connection refused\": unavailable","ExitCode":128`
	hasRun    = `"Status":"exited","ExitCode":3,"StartedAt":"2026-01-02T03:04:05Z","FinishedAt":"2026-01-02T03:04:06Z"`
)

// forgetful is a Docker daemon with one container, of which it says what it is told to.
type forgetful struct {
	root, proc string

	mu     sync.Mutex
	states []string // the next answer first; the last one stays
	asked  []string // of it, but for what it knows
	fails  string   // with what it answers that
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
		_, _ = fmt.Fprintf(w, `{"Id":%q,"Name":"/task","Created":"2026-01-02T03:04:00Z","Config":{"Image":"busybox"},"State":{%s}}`, lostID, f.state())
	default:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked = append(f.asked, r.Method)
		if f.fails == "" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
		_ = json.NewEncoder(w).Encode(map[string]string{"message": f.fails})
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
		"a first one": {[]string{neverRan}, lately, runtime.StateExited, true},
		"a later one": {[]string{hasRun}, lately, runtime.StateExited, true},
		"a first one that containerd did not answer":  {[]string{neverRan + noAnswer}, lately, runtime.StateExited, true},
		"a later one that containerd did not answer":  {[]string{hasRun + noAnswer}, lately, runtime.StateExited, true},
		"not where containerd could not be asked":     {[]string{neverRan + notAsked}, lately, runtime.StateCreated, false},
		"nor a later one where it could not be asked": {[]string{hasRun + notAsked}, lately, runtime.StateExited, false},
		"not where none was begun":                    {[]string{neverRan}, time.Time{}, runtime.StateCreated, false},
		"not where it failed":                         {[]string{neverRan + `,"Error":"no program","ExitCode":127`}, lately, runtime.StateCreated, false},
		"not where a later one failed":                {[]string{hasRun + `,"Error":"no mount"`}, lately, runtime.StateExited, false},
		"not where Docker knows how it ended":         {[]string{hasRun}, early, runtime.StateExited, false},
		"not where it runs":                           {[]string{isRunning}, lately, runtime.StateRunning, false},
		"not where its start was still at work":       {[]string{neverRan, isRunning}, lately, runtime.StateRunning, false},
		"nor a later one whose start was":             {[]string{hasRun, isRunning}, lately, runtime.StateRunning, false},
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

func TestAStartThatContainerdDidNotAnswerMayHaveBeenDone(t *testing.T) {
	f := newForgetful(t, neverRan, neverRan+noAnswer)
	f.fails = "transport is closing: unavailable"
	ended := f.runs(t, lostID)
	r := f.connect(t)
	if err := r.Start(t.Context(), lostID); err != nil {
		t.Fatalf("it may have been started: got %v", err)
	}
	<-ended
	// Docker's files are not to be seen: it is not known when it was started.
	c, err := r.Inspect(t.Context(), lostID)
	if err != nil || c.State != runtime.StateExited || c.Exit == nil || c.Exit.Code != nil || !strings.Contains(c.Exit.Message, "transport is closing") {
		t.Errorf("got %+v with exit %+v, %v", c, c.Exit, err)
	}
	if err := r.Start(t.Context(), lostID); err != nil || len(f.requests()) != 1 {
		t.Errorf("once more: %v, and Docker was asked to %q", err, f.requests())
	}
}

func TestAStartThatContainerdCouldNotBeAskedForIsTriedAgain(t *testing.T) {
	f := newForgetful(t, neverRan, neverRan+notAsked)
	f.began(t, lately)
	f.fails = "connection error: desc = \"transport: Error while dialing dial unix /run/containerd/containerd.sock: connect: connection refused\": unavailable"
	r := f.connect(t)
	wantClass(t, r.Start(t.Context(), lostID), runtime.ErrUnavailable)
	waits := f.runs(t, lostID) // for its program, as it was made and never started
	f.fails = ""
	if err := r.Start(t.Context(), lostID); err != nil {
		t.Error(err)
	}
	<-waits
	if asked := f.requests(); len(asked) != 2 {
		t.Errorf("Docker was asked to %q, want two starts", asked)
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

func TestWhatDockerLeavesOfAContainerThatItRemovedIsEnded(t *testing.T) {
	f := newForgetful(t, hasRun)
	f.began(t, early)
	left := f.runs(t, lostID)
	if err := f.connect(t).Remove(t.Context(), lostID); err != nil {
		t.Fatal(err)
	}
	<-left
	if asked := f.requests(); len(asked) != 1 || asked[0] != http.MethodDelete {
		t.Errorf("Docker was asked to %q", asked)
	}
}

func TestSweepEndsWhatRunsAndDockerDoesNotKnowOf(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		f := newForgetful(t, neverRan)
		f.began(t, lately)
		ended := f.runs(t, lostID)
		if err := f.connect(t).Sweep(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		<-ended
	})
	for name, states := range map[string][]string{"a start under way": {neverRan, isRunning}, "what it knows of": {isRunning}} {
		t.Run("but not "+name, func(t *testing.T) {
			f := newForgetful(t, states...)
			f.began(t, lately)
			ended := f.runs(t, lostID)
			if err := f.connect(t).Sweep(t.Context(), nil); err != nil {
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
