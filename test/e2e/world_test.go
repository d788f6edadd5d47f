// Package e2e runs the agent as a process of its own against the reference control plane,
// a private registry and the real container daemon of this machine.
package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/daemon"
	"github.com/heteroflow/node-agent/test/image"
	"github.com/heteroflow/node-agent/test/stage"
)

// shared is made once for all tests of this package.
var shared struct {
	once   sync.Once
	binary string
	images *stage.Images
	err    error
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "heteroflow-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared.binary = dir
	code := m.Run()
	if shared.images != nil {
		err = shared.images.Close()
	}
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func prepare(t testing.TB) {
	t.Helper()
	shared.once.Do(func() {
		ctx := context.Background()
		if shared.binary, shared.err = stage.BuildAgent(ctx, shared.binary); shared.err == nil {
			shared.images, shared.err = stage.StartImages(ctx, image.Options{})
		}
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
}

// world is one control plane with one node.
type world struct {
	t       *testing.T
	plane   *stage.Plane
	agent   *stage.Agent
	runtime *stage.Daemon
}

// fast makes the agent's loops turn several times a second.
var fast = []string{
	"heartbeat.period=300ms", "tasks.poll_period=200ms", "tasks.wake_poll_period=1m", "tasks.reconcile_period=1s",
	"tasks.workers=4", "report.initial_backoff=100ms", "report.max_backoff=500ms",
}

// newWorld starts a control plane and, unless asked not to, an agent.
func newWorld(t *testing.T, features devserver.Features, settings ...string) *world {
	t.Helper()
	return newWorldOn(t, runtime.Docker, features, settings...)
}

// runtimes are the daemons that what tasks live through is tested on.
var runtimes = []runtime.Name{runtime.Docker, runtime.Containerd}

func newWorldOn(t *testing.T, on runtime.Name, features devserver.Features, settings ...string) *world {
	t.Helper()
	if on == runtime.Docker {
		daemon.RequireDocker(t)
	} else {
		daemon.RequireContainerd(t)
	}
	prepare(t)
	dir := t.TempDir()
	plane, err := stage.StartPlane(t.Context(), dir, features)
	if err != nil {
		t.Fatal(err)
	}
	agent := &stage.Agent{Binary: shared.binary, Dir: dir, Server: plane.URL, NodeID: fmt.Sprintf("e2e-%d", time.Now().UnixNano())}
	d, err := stage.OpenDaemon(on, agent)
	if err != nil {
		t.Fatal(err)
	}
	agent.Set = slices.Concat(d.Settings, []string{"volumes.allow=" + dir, "gpu.cdi_dir=" + filepath.Join(dir, "cdi"), "log.level=debug"}, fast, settings)
	w := &world{t: t, plane: plane, runtime: d, agent: agent}
	if err := w.agent.WriteKey(stage.SystemKey); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.end)
	return w
}

// end stops everything and fails the test if a container is left.
func (w *world) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w.agent.Kill()
	left := w.runtime.RemoveContainers(ctx, taskcontainer.OwnLabels(w.agent.NodeID))
	if err := errors.Join(left, w.plane.Stop(), w.runtime.Close()); err != nil {
		w.t.Error(err)
	}
	if w.t.Failed() {
		w.t.Logf("the agent's log:\n%s", w.agent.Log())
	}
}

func (w *world) start() {
	w.t.Helper()
	if err := w.agent.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// task is a task of the workload on this node.
func (w *world) task(id string, args ...string) protocol.Task {
	return protocol.Task{
		ID: id, NodeID: w.agent.NodeID, Image: shared.images.Workload, RegistryAuth: shared.images.Auth(),
		Args: args, Network: protocol.NetworkNone, StopGraceSeconds: new(int64(5)),
	}
}

func (w *world) submit(task protocol.Task) {
	w.t.Helper()
	if _, err := w.plane.Operator.CreateTask(w.t.Context(), task); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) act(id string, action operator.Action) {
	w.t.Helper()
	if _, err := w.plane.Operator.Act(w.t.Context(), id, action); err != nil {
		w.t.Fatal(err)
	}
}

// patience is how long anything may take on a busy machine.
const patience = 90 * time.Second

// eventually asks until the answer is yes.
func (w *world) eventually(what string, ask func() bool) {
	w.t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-deadline:
			w.t.Fatalf("not within %v: %s", patience, what)
		case <-tick.C:
		}
	}
}

// reaches waits for a task's status.
func (w *world) reaches(id string, status protocol.TaskStatus) operator.Task {
	w.t.Helper()
	var task operator.Task
	w.eventually(fmt.Sprintf("task %s %s", id, status), func() bool {
		var err error
		if task, err = w.plane.Operator.Task(w.t.Context(), id); err != nil {
			w.t.Fatal(err)
		}
		if task.Status != status && task.Status.Terminal() {
			w.t.Fatalf("task %s is %s (%s: %s), want %s", id, task.Status, task.Outcome.Reason, task.Outcome.ErrorMessage, status)
		}
		return task.Status == status
	})
	return task
}

// beats waits for a heartbeat that satisfies ok.
func (w *world) beats(what string, ok func(hb protocol.Heartbeat) bool) protocol.Heartbeat {
	w.t.Helper()
	var hb protocol.Heartbeat
	w.eventually("a heartbeat with "+what, func() bool {
		node, err := w.plane.Operator.Node(w.t.Context(), w.agent.NodeID)
		if err != nil || node.Heartbeat == nil {
			return false
		}
		hb = protocol.Heartbeat{}
		if err := json.Unmarshal(node.Heartbeat, &hb); err != nil {
			w.t.Fatal(err)
		}
		return ok(hb)
	})
	return hb
}

func (w *world) containers() []runtime.Container {
	w.t.Helper()
	all, err := w.runtime.List(w.t.Context(), taskcontainer.OwnLabels(w.agent.NodeID))
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func (w *world) container(id string) runtime.Container {
	w.t.Helper()
	c, err := w.runtime.Inspect(w.t.Context(), taskcontainer.Name(id))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// prints waits until the task's container has printed the text.
func (w *world) prints(id, text string) {
	w.t.Helper()
	w.eventually(id+" prints "+text, func() bool {
		c, err := w.runtime.Inspect(w.t.Context(), taskcontainer.Name(id))
		if errors.Is(err, runtime.ErrNotFound) {
			return false
		}
		if err != nil {
			w.t.Fatal(err)
		}
		out, err := w.runtime.Logs(w.t.Context(), c.ID, runtime.LogOptions{TailBytes: 64 << 10})
		return err == nil && strings.Contains(string(out), text)
	})
}

func (w *world) gone(id string) {
	w.t.Helper()
	w.eventually("the container of "+id+" removed", func() bool {
		_, err := w.runtime.Inspect(w.t.Context(), taskcontainer.Name(id))
		return errors.Is(err, runtime.ErrNotFound)
	})
}
