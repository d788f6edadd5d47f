package faults

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"

	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/cluster"
	"github.com/heteroflow/node-agent/test/engine"
	"github.com/heteroflow/node-agent/test/stage"
)

var kit = cluster.NewKit("faults")

func TestMain(m *testing.M) { kit.Main(m) }

// calm are the daemons of the tests in which only others have trouble.
var calm struct {
	once    sync.Once
	engines *engine.Engines
}

func calmEngines(t *testing.T) *engine.Engines {
	t.Helper()
	calm.once.Do(func() {
		if calm.engines = engine.Require(t, engine.Options{}); calm.engines != nil {
			kit.Later(func() error { return errors.Join(awaitIdle(calm.engines), calm.engines.Close()) })
		}
	})
	if calm.engines == nil {
		t.Skip("the test's own container daemons could not be started, as the first test says")
	}
	return calm.engines
}

// awaitIdle waits until the daemons have nothing left of all the tasks that they ran, be it a
// process or a mount that they do not know of themselves.
func awaitIdle(e *engine.Engines) error {
	for deadline := time.Now().Add(cluster.Patience); ; {
		left, err := e.Left()
		switch {
		case err == nil && len(left) == 0:
			return nil
		case time.Now().After(deadline):
			return errors.Join(fmt.Errorf("the daemons have left of their tasks: %q", left), err)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// lane is what no two nodes may share at once: a number from 0 on. Each has a namespace,
// a bridge and addresses of its own in containerd.
type lane int

func (l lane) place(e *engine.Engines, on runtime.Name) stage.Place {
	if on == runtime.Docker {
		return stage.Place{Kind: on, Socket: e.DockerSocket()}
	}
	return stage.Place{
		Kind: on, Socket: e.ContainerdSocket(), Namespace: fmt.Sprintf("faults-%d-%d", os.Getpid(), l),
		Bridge: fmt.Sprintf("hf-f%d-%d", os.Getpid()%100000, l), Subnet: fmt.Sprintf("10.215.%d.0/24", l),
	}
}

// inLanes runs a test for each of the cases, so many at a time.
func inLanes[T any](t *testing.T, lanes int, cases iter.Seq[T], name func(T) string, test func(t *testing.T, l lane, c T)) {
	t.Helper()
	next := make(chan T)
	var running sync.WaitGroup
	for l := range lanes {
		running.Go(func() {
			for c := range next {
				t.Run(name(c), func(t *testing.T) { test(t, lane(l), c) })
			}
		})
	}
	for c := range cases {
		next <- c
	}
	close(next)
	running.Wait()
}

// node is a node whose tasks write down when they run.
type node struct {
	*cluster.World
	place stage.Place
	begun int // stories
	told  int // how often the operator has changed his mind in the last of them
}

func newNode(t *testing.T, place stage.Place, settings ...string) *node {
	t.Helper()
	n := &node{World: kit.New(t, cluster.Options{Place: place, Features: devserver.Features{}, Settings: settings}), place: place}
	if err := os.MkdirAll(n.notes(""), 0o700); err != nil {
		t.Fatal(err)
	}
	if place.Kind == runtime.Containerd {
		t.Cleanup(func() { // before the World's end: what it holds is still open
			if err := n.Runtime.Forget(context.WithoutCancel(t.Context()), n.Images.Workload); err != nil {
				t.Error(err)
			}
			// A daemon that hung may only now give up what it was asked for then.
			var left []string
			var err error
			for deadline := time.Now().Add(cluster.Patience); ; {
				left, err = n.remains(context.WithoutCancel(t.Context()))
				if len(left) == 0 && err == nil || t.Failed() || time.Now().After(deadline) {
					break
				}
				<-time.After(100 * time.Millisecond)
			}
			if (len(left) > 0 || err != nil) && !t.Failed() {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
	return n
}

func (n *node) notes(id string) string { return filepath.Join(n.Agent.Dir, "notes", id) }

// task is one of this node that notes its starts and ends.
func (n *node) task(id string, args ...string) protocol.Task {
	task := n.Task(n.Agent.NodeID+"-"+id, append([]string{"note", "/notes/" + n.Agent.NodeID + "-" + id}, args...)...)
	task.Volumes = []protocol.Volume{{HostPath: n.notes(""), ContainerPath: "/notes"}}
	return task
}

// noted are the lines that a task's program wrote.
func (n *node) noted(id string) (lines []string) {
	n.T.Helper()
	data, err := os.ReadFile(n.notes(id))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		n.T.Fatal(err)
	}
	return strings.Fields(strings.ReplaceAll(string(data), " ", "-"))
}

// starts counts how often the task's program was started, by its own account.
func (n *node) starts(id string) (count int) {
	n.T.Helper()
	for _, line := range n.noted(id) {
		if line == "start" {
			count++
		}
	}
	return count
}

func (n *node) read(id string) operator.Task {
	n.T.Helper()
	task, err := n.Plane.Operator.Task(n.T.Context(), id)
	if err != nil {
		n.T.Fatal(err)
	}
	return task
}

// tries has the operator do something that may come too late.
func (n *node) tries(id string, action operator.Action) bool {
	n.T.Helper()
	_, err := n.Plane.Operator.Act(n.T.Context(), id, action)
	if refused, ok := errors.AsType[*operator.StatusError](err); ok && (refused.Status == http.StatusConflict || refused.Status == http.StatusUnprocessableEntity) {
		return false
	}
	if err != nil {
		n.T.Fatal(err)
	}
	return true
}

// reports are the ends that the node has told of.
func (n *node) reports(id string) (ends []operator.Event) {
	n.T.Helper()
	history, err := n.Plane.Operator.History(n.T.Context(), id)
	if err != nil {
		n.T.Fatal(err)
	}
	for _, e := range history {
		if e.Kind == operator.EventNode && e.To.Terminal() {
			ends = append(ends, e)
		}
	}
	return ends
}

// awaitNothingLeft waits until the node has forgotten all tasks, and everything of them is gone.
func (n *node) awaitNothingLeft() {
	n.T.Helper()
	var left []string
	var unseen error // a daemon may be dying in another lane
	n.Eventually("nothing is left", func() bool {
		var now []string
		if now, unseen = n.remains(n.T.Context()); unseen == nil {
			left = append(n.owed(), now...)
		}
		return unseen == nil && len(left) == 0
	}, func() string { return fmt.Sprintf("%q, and last %v", left, unseen) })
	if strings.Contains(n.Agent.Log(), `"message":"task state"`) {
		n.T.Error("a task took a step that the table of its life does not have")
	}
}

// owed is what the journal holds of tasks.
func (n *node) owed() (files []string) {
	n.T.Helper()
	for _, kind := range []string{"tasks", "results"} {
		found, err := filepath.Glob(filepath.Join(n.Agent.StateDir(), kind, "*"))
		if err != nil {
			n.T.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// remains is what the runtime still has of this node's tasks, down to leases, file
// systems, networks and mounts. What a pull has fetched and unpacked that was cut off is
// kept on purpose, for some hours, and so is its lease.
func (n *node) remains(ctx context.Context) (found []string, err error) {
	if n.place.Kind == runtime.Docker {
		all, err := n.Runtime.List(ctx, taskcontainer.OwnLabels(n.Agent.NodeID))
		for _, c := range all {
			found = append(found, "container "+c.Name)
		}
		return found, err
	}
	c, err := client.New(n.place.Socket, client.WithDefaultNamespace(n.place.Namespace))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	containers, err := c.ContainerService().List(ctx)
	if err != nil {
		return nil, err
	}
	for _, container := range containers {
		found = append(found, "container "+container.ID)
	}
	running, err := c.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return nil, err
	}
	for _, task := range running.Tasks {
		found = append(found, "task "+task.ID)
	}
	leases, kept, err := leased(ctx, c)
	if err != nil {
		return nil, err
	}
	found = append(found, leases...)
	err = c.SnapshotService("overlayfs").Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		if info.Kind == snapshots.KindActive && !kept[info.Name] {
			found = append(found, "file system "+info.Name)
		}
		return nil
	})
	if err != nil && !errdefs.IsNotFound(err) {
		return nil, err
	}
	return append(found, n.files()...), nil
}

// leased returns the leases that are not a pull's, and the file systems that pulls' keep.
func leased(ctx context.Context, c *client.Client) (others []string, kept map[string]bool, err error) {
	all, err := c.LeasesService().List(ctx)
	if err != nil {
		return nil, nil, err
	}
	kept = make(map[string]bool)
	for _, lease := range all {
		if lease.Labels["io.heteroflow.lease"] != "pull" {
			others = append(others, "lease "+lease.ID)
			continue
		}
		resources, err := c.LeasesService().ListResources(ctx, lease)
		if err != nil && !errdefs.IsNotFound(err) {
			return nil, nil, err
		}
		for _, r := range resources {
			if r.Type == "snapshots/overlayfs" {
				kept[r.ID] = true
			}
		}
	}
	return others, kept, nil
}

// files are what containerd tasks have outside of containerd: directories, networks,
// addresses, cgroups and mounts.
func (n *node) files() (found []string) {
	state, run := filepath.Join(n.Agent.StateDir(), "containerd", n.place.Namespace), filepath.Join(n.Agent.Dir, "run", n.place.Namespace)
	for _, pattern := range []string{
		filepath.Join(state, "*"), filepath.Join(run, "netns/*"), filepath.Join(run, "ipam/heteroflow/10.*"), filepath.Join(run, "cni/results/*"),
		"/sys/class/net/" + n.place.Bridge + "/brif/*",
		"/sys/fs/cgroup/memory/" + n.place.Namespace + "/*-*", "/sys/fs/cgroup/" + n.place.Namespace + "/*-*",
	} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			n.T.Fatal(err)
		}
		found = append(found, matches...)
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		n.T.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		point := strings.Fields(line)[4]
		if strings.HasPrefix(point, n.Agent.Dir+"/") && point != n.Agent.StateDir() || strings.Contains(point, "/"+n.place.Namespace+"/") {
			found = append(found, "mount "+point)
		}
	}
	return found
}

// agentIsDead tells whether the agent is dead: killed, not ended in any other way.
func (n *node) agentIsDead() bool {
	n.T.Helper()
	dead, err := n.Agent.Killed()
	if err != nil {
		n.T.Fatal(err)
	}
	return dead
}
