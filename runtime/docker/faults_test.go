package docker_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/docker"
	"github.com/heteroflow/node-agent/test/daemon"
	"github.com/heteroflow/node-agent/test/image"
	"github.com/heteroflow/node-agent/test/registry"
)

const faultLabel = "io.heteroflow.faulttest"

// bench is a Runtime behind a proxy, and one with no proxy to see what is really so.
type bench struct {
	*proxy
	rt, direct *docker.Runtime
	image, run string
}

func newBench(t *testing.T, timeouts docker.Timeouts) bench {
	t.Helper()
	host := daemon.RequireDocker(t)
	p := startProxy(t, realDaemon(t, host))
	b := bench{
		proxy:  p,
		rt:     connect(t, docker.Options{Host: p.host, Timeouts: timeouts}),
		direct: connect(t, docker.Options{Host: host}),
		run:    strings.ToLower(rand.Text()[:8]),
	}
	b.image = pullWorkload(t, b.direct, host)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		left, err := b.direct.List(ctx, map[string]string{faultLabel: b.run})
		for _, c := range left {
			err = errors.Join(err, b.direct.Remove(ctx, c.ID))
		}
		if err != nil {
			t.Error(err)
		}
	})
	return b
}

// pullWorkload has the daemon fetch the workload image, which the test's end removes.
func pullWorkload(t testing.TB, r *docker.Runtime, host string) string {
	t.Helper()
	img, err := image.Build(t.Context(), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.Start(registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := reg.Close(); err != nil {
			t.Error(err)
		}
	}()
	ref, err := reg.Push(img, "workload:v1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Pull(t.Context(), runtime.PullRequest{Ref: ref}); err != nil {
		t.Fatal(err)
	}
	api := bareClient(t, host)
	t.Cleanup(func() {
		_, err := api.ImageRemove(context.WithoutCancel(t.Context()), ref, client.ImageRemoveOptions{PruneChildren: true})
		if err != nil && !cerrdefs.IsNotFound(err) { // the same image of another test's is removed meanwhile
			t.Error(err)
		}
	})
	return ref
}

func (b bench) spec(name string, args ...string) runtime.Spec {
	return runtime.Spec{
		Name:    fmt.Sprintf("fault-%s-%s", b.run, name),
		Image:   b.image,
		Labels:  map[string]string{faultLabel: b.run},
		Args:    args,
		Network: runtime.Network{Mode: runtime.NetworkHost},
		IPC:     runtime.IPCPrivate,
		Logs:    runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 1},
	}
}

func (b bench) create(t *testing.T, args ...string) string {
	t.Helper()
	c, err := b.direct.Create(t.Context(), b.spec("c", args...))
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

func (b bench) start(t *testing.T, args ...string) string {
	t.Helper()
	id := b.create(t, args...)
	if err := b.direct.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

func (b bench) state(t *testing.T, id string) runtime.State {
	t.Helper()
	c, err := b.direct.Inspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c.State
}

func wantClass(t *testing.T, err, class error) {
	t.Helper()
	if !errors.Is(err, class) {
		t.Errorf("got error %v, want one of class %q", err, class)
	}
}

func TestCreateWhoseReplyIsLostFindsItsContainer(t *testing.T) {
	b := newBench(t, docker.Timeouts{})
	b.add(fault{"POST", "/containers/create", 1, dropReply})
	c, err := b.rt.Create(t.Context(), b.spec("lost", "exit", "0"))
	if err != nil {
		t.Fatal(err)
	}
	found, err := b.direct.List(t.Context(), map[string]string{faultLabel: b.run})
	if err != nil || len(found) != 1 || found[0].ID != c.ID {
		t.Errorf("got %s, the daemon has %+v, %v", c.ID, found, err)
	}
}

func TestCreateWhoseRequestIsLostIsUnavailable(t *testing.T) {
	b := newBench(t, docker.Timeouts{Create: 200 * time.Millisecond})
	b.add(fault{"POST", "/containers/create", 1, hang})
	_, err := b.rt.Create(t.Context(), b.spec("lost", "exit", "0"))
	wantClass(t, err, runtime.ErrUnavailable)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Error("the caller's context seems to have ended")
	}
	if _, err := b.direct.Create(t.Context(), b.spec("lost", "exit", "0")); err != nil {
		t.Errorf("the next try: %v", err)
	}
}

func TestStartWhoseReplyIsLostIsASuccess(t *testing.T) {
	for name, args := range map[string][]string{
		"and the program runs":      {"sleep", "10m"},
		"and the program has ended": {"exit", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, docker.Timeouts{})
			id := b.create(t, args...)
			b.add(fault{"POST", "/start", 1, dropReply})
			if err := b.rt.Start(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if n := b.requests("POST", "/start"); n != 1 {
				t.Errorf("it was started %d times", n)
			}
			if state := b.state(t, id); state == runtime.StateCreated {
				t.Error("it has not run")
			}
		})
	}
}

func TestStartThatTheDaemonNeverSawIsUnavailable(t *testing.T) {
	b := newBench(t, docker.Timeouts{Start: 200 * time.Millisecond})
	id := b.create(t, "exit", "0")
	b.add(fault{"POST", "/start", 1, hang})
	wantClass(t, b.rt.Start(t.Context(), id), runtime.ErrUnavailable)
	if state := b.state(t, id); state != runtime.StateCreated {
		t.Errorf("it is %s", state)
	}
}

func TestWaitThatBreaksOffIsUnavailableAndCanBeRepeated(t *testing.T) {
	b := newBench(t, docker.Timeouts{})
	id := b.start(t, "sleep", "10m")
	b.add(fault{"POST", "/wait", 1, breakOff("")})
	_, err := b.rt.Wait(t.Context(), id)
	wantClass(t, err, runtime.ErrUnavailable)
	running, err := b.direct.Inspect(t.Context(), id)
	if err != nil || running.PID < 2 {
		t.Fatalf("got %+v, %v", running, err)
	}
	if err := syscall.Kill(running.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	exit, err := b.rt.Wait(t.Context(), id)
	if err != nil || exit.Code == nil || *exit.Code != 137 {
		t.Errorf("got %+v, %v", exit, err)
	}
}

func TestStopThatHangsEndsInAKill(t *testing.T) {
	b := newBench(t, docker.Timeouts{StopReply: 100 * time.Millisecond})
	id := b.start(t, "ignore-sigterm")
	b.add(fault{"POST", "/stop", 1, hang})
	if err := b.rt.Stop(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	if state := b.state(t, id); state != runtime.StateExited {
		t.Errorf("it is %s", state)
	}
}

func TestStopOfAContainerThatSurvivesSIGKILLTimesOut(t *testing.T) {
	b := newBench(t, docker.Timeouts{StopReply: 50 * time.Millisecond, StopMargin: 500 * time.Millisecond})
	id := b.start(t, "sleep", "10m")
	for name, kill := range map[string]func(http.ResponseWriter, *http.Request, http.Handler){
		"its kill has no effect":   answer(204, ""),
		"its kill is not answered": hang,
	} {
		t.Run(name, func(t *testing.T) {
			b.add(fault{"POST", "/stop", 1, hang})
			b.add(fault{"POST", "/kill", 1, kill})
			err := b.rt.Stop(t.Context(), id, 0)
			wantClass(t, err, runtime.ErrStopTimeout)
			if errors.Is(err, runtime.ErrUnavailable) {
				t.Errorf("the daemon is blamed: %v", err)
			}
		})
	}
}

func TestStopWhoseReplyIsLostIsASuccess(t *testing.T) {
	b := newBench(t, docker.Timeouts{})
	id := b.start(t, "sleep", "10m")
	b.add(fault{"POST", "/stop", 1, dropReply})
	if err := b.rt.Stop(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	if state := b.state(t, id); state != runtime.StateExited {
		t.Errorf("it is %s", state)
	}
}

func TestStopWhileTheDaemonFailsIsNoSuccess(t *testing.T) {
	b := newBench(t, docker.Timeouts{Query: 100 * time.Millisecond})
	id := b.start(t, "sleep", "10m")
	b.add(fault{"POST", "/stop", 1, answer(500, `{"message":"cannot stop container: context deadline exceeded"}`)})
	b.add(fault{"POST", "/kill", 1, hang})
	b.add(fault{"GET", "/json", 1, hang})
	wantClass(t, b.rt.Stop(t.Context(), id, 0), runtime.ErrUnavailable)
	if state := b.state(t, id); state != runtime.StateRunning {
		t.Errorf("it is %s", state)
	}
}

func TestRemoveWhoseReplyIsLostIsASuccess(t *testing.T) {
	b := newBench(t, docker.Timeouts{})
	id := b.create(t, "exit", "0")
	b.add(fault{"DELETE", "/containers/" + id, 1, dropReply})
	if err := b.rt.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	_, err := b.direct.Inspect(t.Context(), id)
	wantClass(t, err, runtime.ErrNotFound)
}

func TestRemoveWaitsForAnotherRemoval(t *testing.T) {
	b := newBench(t, docker.Timeouts{})
	id := b.create(t, "exit", "0")
	b.add(fault{"DELETE", "/containers/" + id, 2, answer(409, `{"message":"removal of container `+id+` is already in progress"}`)})
	if err := b.rt.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}

func TestRemoveOfABusyFileSystemGivesUp(t *testing.T) {
	b := newBench(t, docker.Timeouts{})
	id := b.create(t, "exit", "0")
	b.add(fault{"DELETE", "/containers/" + id, 100, answer(500, `{"message":"unlinkat /var/lib/docker/overlay2/x/merged: device or resource busy"}`)})
	wantClass(t, b.rt.Remove(t.Context(), id), runtime.ErrConflict)
	if n := b.requests("DELETE", id); n < 2 || n > 10 {
		t.Errorf("it was tried %d times", n)
	}
}

func TestLogsThatBreakOffAreAnErrorAndNoShortLog(t *testing.T) {
	b := newBench(t, docker.Timeouts{})
	id := b.create(t, "exit", "0")
	for _, start := range []string{"\x01\x00\x00\x00\x00\x00\x00\x03abc", "\x01\x00\x00\x00\x00\x00\x00\x09abc", "\x01\x00\x00"} {
		b.add(fault{"GET", "/logs", 1, breakOff(start)})
		out, err := b.rt.Logs(t.Context(), id, runtime.LogOptions{TailBytes: 100})
		wantClass(t, err, runtime.ErrUnavailable)
		if len(out) > 0 {
			t.Errorf("%q: got %q", start, out)
		}
	}
}

func TestPullThatBreaksOffIsTheDaemonsFault(t *testing.T) {
	b := newBench(t, docker.Timeouts{})
	b.add(fault{"POST", "/images/create", 1, breakOff(`{"status":"Downloading","progressDetail":{"current":1,"total":9},"id":"a"}` + "\n")})
	var last runtime.PullProgress
	_, err := b.rt.Pull(t.Context(), runtime.PullRequest{Ref: b.image, Progress: func(p runtime.PullProgress) { last = p }})
	wantClass(t, err, runtime.ErrUnavailable)
	if want := (runtime.PullProgress{BytesDone: 1, BytesTotal: 9}); last != want {
		t.Errorf("progress %+v, want %+v", last, want)
	}
}

func TestPullOfAnImageThatIsPrunedAtOnceIsNotNotFound(t *testing.T) {
	b := newBench(t, docker.Timeouts{})
	b.add(fault{"POST", "/images/create", 1, answer(200, `{"status":"Pull complete","id":"a"}`)})
	_, err := b.rt.Pull(t.Context(), runtime.PullRequest{Ref: "127.0.0.1:1/pruned:v1"})
	wantClass(t, err, runtime.ErrUnavailable)
	if errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("the registry is said not to have it: %v", err)
	}
}
