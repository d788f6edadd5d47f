// Package cluster is a control plane with one node for tests: the reference control plane
// and a private registry in the test's process, an agent as a process of its own, and a
// real container daemon.
//
// Everything a World starts ends with its test, which fails if a container is left.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/daemon"
	"github.com/heteroflow/node-agent/test/stage"
)

// World is one control plane with one node.
type World struct {
	T       *testing.T
	Plane   *stage.Plane
	Agent   *stage.Agent
	Runtime *stage.Daemon
	Images  *stage.Images
}

// Options make a World.
type Options struct {
	Place    stage.Place // the daemon the agent uses; skipped where a usual one is not there
	Features devserver.Features
	Settings []string // of the agent, KEY=VALUE, over those that make it fast
}

// Fast makes the agent's loops turn several times a second.
var Fast = []string{
	"heartbeat.period=300ms", "tasks.poll_period=200ms", "tasks.wake_poll_period=1m", "tasks.reconcile_period=1s", "tasks.min_container_age=1s",
	"tasks.workers=4", "report.initial_backoff=100ms", "report.max_backoff=500ms",
}

// New starts a control plane and makes an agent for it, not started yet.
func (k *Kit) New(t *testing.T, o Options) *World {
	t.Helper()
	switch {
	case o.Place.Socket != "":
	case o.Place.Kind == runtime.Docker:
		daemon.RequireDocker(t)
	default:
		daemon.RequireContainerd(t)
	}
	k.Prepare(t)
	dir := t.TempDir()
	plane, err := stage.StartPlane(t.Context(), dir, o.Features)
	if err != nil {
		t.Fatal(err)
	}
	agent := &stage.Agent{Binary: k.Binary(), Dir: dir, Server: plane.URL, NodeID: fmt.Sprintf("node-%d", time.Now().UnixNano())}
	d, err := stage.OpenDaemon(o.Place, agent)
	if err != nil {
		t.Fatal(errors.Join(err, plane.Stop()))
	}
	agent.Set = slices.Concat(d.Settings, []string{"volumes.allow=" + dir, "gpu.cdi_dir=" + filepath.Join(dir, "cdi"), "log.level=debug"}, Fast, o.Settings)
	w := &World{T: t, Plane: plane, Runtime: d, Agent: agent, Images: k.images}
	t.Cleanup(w.end)
	if err := w.Agent.WriteKey(stage.SystemKey); err != nil {
		t.Fatal(err)
	}
	return w
}

// end stops everything and fails the test if a container is left.
func (w *World) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w.Agent.Kill()
	left := w.Runtime.RemoveContainers(ctx, taskcontainer.OwnLabels(w.Agent.NodeID))
	if err := errors.Join(left, w.Plane.Stop(), w.Runtime.Close()); err != nil {
		w.T.Error(err)
	}
	if w.T.Failed() {
		w.T.Logf("the agent's log:\n%s", w.Agent.Log())
	}
}

// Start starts the agent.
func (w *World) Start() {
	w.T.Helper()
	if err := w.Agent.Start(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
}

// Task is a task of the workload on this node.
func (w *World) Task(id string, args ...string) protocol.Task {
	return protocol.Task{
		ID: id, NodeID: w.Agent.NodeID, Image: w.Images.Workload, RegistryAuth: w.Images.Auth(),
		Args: args, Network: protocol.NetworkNone, StopGraceSeconds: new(int64(5)),
	}
}

// Submit creates the task at the control plane.
func (w *World) Submit(task protocol.Task) {
	w.T.Helper()
	if _, err := w.Plane.Operator.CreateTask(w.T.Context(), task); err != nil {
		w.T.Fatal(err)
	}
}

// Act has the operator do something with the task.
func (w *World) Act(id string, action operator.Action) {
	w.T.Helper()
	if _, err := w.Plane.Operator.Act(w.T.Context(), id, action); err != nil {
		w.T.Fatal(err)
	}
}

// Patience is how long anything may take on a busy machine.
const Patience = 90 * time.Second

// Eventually asks until the answer is yes. Where that does not come, the details say more.
func (w *World) Eventually(what string, ask func() bool, details ...func() string) {
	w.T.Helper()
	deadline := time.After(Patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-deadline:
			for _, more := range details {
				what += ": " + more()
			}
			w.T.Fatalf("not within %v: %s", Patience, what)
		case <-tick.C:
		}
	}
}

// Reaches waits for a task's status.
func (w *World) Reaches(id string, status protocol.TaskStatus) operator.Task {
	w.T.Helper()
	var task operator.Task
	w.Eventually(fmt.Sprintf("task %s %s", id, status), func() bool {
		var err error
		if task, err = w.Plane.Operator.Task(w.T.Context(), id); err != nil {
			w.T.Fatal(err)
		}
		if task.Status != status && task.Status.Terminal() {
			w.T.Fatalf("task %s is %s (%s: %s), want %s", id, task.Status, task.Outcome.Reason, task.Outcome.ErrorMessage, status)
		}
		return task.Status == status
	})
	return task
}

// Beats waits for a heartbeat that satisfies ok.
func (w *World) Beats(what string, ok func(hb protocol.Heartbeat) bool) protocol.Heartbeat {
	w.T.Helper()
	var hb protocol.Heartbeat
	w.Eventually("a heartbeat with "+what, func() bool {
		node, err := w.Plane.Operator.Node(w.T.Context(), w.Agent.NodeID)
		if err != nil || node.Heartbeat == nil {
			return false
		}
		hb = protocol.Heartbeat{}
		if err := json.Unmarshal(node.Heartbeat, &hb); err != nil {
			w.T.Fatal(err)
		}
		return ok(hb)
	})
	return hb
}

// Containers are those of this node.
func (w *World) Containers() []runtime.Container {
	w.T.Helper()
	all, err := w.Runtime.List(w.T.Context(), taskcontainer.OwnLabels(w.Agent.NodeID))
	if err != nil {
		w.T.Fatal(err)
	}
	return all
}

// Container is the task's.
func (w *World) Container(id string) runtime.Container {
	w.T.Helper()
	c, err := w.Runtime.Inspect(w.T.Context(), taskcontainer.Name(id))
	if err != nil {
		w.T.Fatal(err)
	}
	return c
}

// Runs waits until the task's container runs, and returns it.
func (w *World) Runs(id string) (c runtime.Container) {
	w.T.Helper()
	w.Eventually("the container of "+id+" runs", func() bool {
		var err error
		c, err = w.Runtime.Inspect(w.T.Context(), taskcontainer.Name(id))
		return err == nil && c.State == runtime.StateRunning
	})
	return c
}

// Prints waits until the task's container has printed the text.
func (w *World) Prints(id, text string) {
	w.T.Helper()
	w.Eventually(id+" prints "+text, func() bool {
		c, err := w.Runtime.Inspect(w.T.Context(), taskcontainer.Name(id))
		if errors.Is(err, runtime.ErrNotFound) {
			return false
		}
		if err != nil {
			w.T.Fatal(err)
		}
		out, err := w.Runtime.Logs(w.T.Context(), c.ID, runtime.LogOptions{TailBytes: 64 << 10})
		return err == nil && strings.Contains(string(out), text)
	})
}

// Gone waits until the task has no container.
func (w *World) Gone(id string) {
	w.T.Helper()
	w.Eventually("the container of "+id+" removed", func() bool {
		_, err := w.Runtime.Inspect(w.T.Context(), taskcontainer.Name(id))
		return errors.Is(err, runtime.ErrNotFound)
	})
}
