package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/engine"
)

// holdAt makes the agent wait when it gets to the point. Afterwards held tells whether it
// waits there, and release lets it go on.
func (n *node) holdAt(point string) (held func() bool, release func()) {
	file := filepath.Join(n.Agent.Dir, "held")
	n.Agent.Env = []string{"HOLDPOINT=" + point, "HOLDFILE=" + file}
	return func() bool {
			_, err := os.Stat(file)
			return err == nil
		}, func() {
			if err := os.Remove(file); err != nil {
				n.T.Fatal(err)
			}
		}
}

// noRuntime tells of a heartbeat that says that the daemon does not answer, and why.
func noRuntime(hb protocol.Heartbeat) bool {
	return !hb.DockerAvailable && hb.Runtime != nil && !hb.Runtime.Available && hb.Runtime.Error != "" &&
		strings.Contains(hb.ErrorMessage, hb.Runtime.Error)
}

// A daemonTrouble befalls both daemons. It lasts until every agent has met it.
type daemonTrouble struct {
	deadly     bool // to the daemons
	begin, end func(e *engine.Engines, t *testing.T) error
	met        func(n *node)
}

var (
	dies = daemonTrouble{
		deadly: true,
		begin:  func(e *engine.Engines, _ *testing.T) error { return errors.Join(e.Docker.Kill(), e.Containerd.Kill()) },
		end: func(e *engine.Engines, t *testing.T) error {
			return errors.Join(e.Containerd.Start(t.Context()), e.Docker.Start(t.Context()))
		},
		met: func(n *node) {
			n.Beats("a daemon that is away, and why", noRuntime)
		},
	}
	hangs = daemonTrouble{
		begin: func(e *engine.Engines, _ *testing.T) error { return errors.Join(e.Docker.Hang(), e.Containerd.Hang()) },
		end: func(e *engine.Engines, _ *testing.T) error {
			return errors.Join(e.Containerd.Resume(), e.Docker.Resume())
		},
		met: func(n *node) {
			var first int64
			n.Beats("the agent's heart beating while its daemon hangs", func(hb protocol.Heartbeat) bool {
				if first == 0 {
					first = hb.Sequence
				}
				return hb.Sequence >= first+8
			})
		},
	}
)

func ownEngines(t *testing.T, o engine.Options) *engine.Engines {
	t.Helper()
	e := engine.Require(t, o)
	t.Cleanup(func() {
		if os.Getenv(soakVariable) != "" { // daemons that died may have left what the agent must find
			if err := awaitIdle(e); err != nil {
				t.Error(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func TestATaskSurvivesDaemonsThatDieOrHangAtAnyStage(t *testing.T) {
	t.Parallel()
	e := ownEngines(t, engine.Options{})
	points := map[string][]string{
		"that ends by itself": {
			"claim: won", "launch: image there", "launch: created", "start: recorded", "start: done", "end: seen",
			"result: recorded", "result: reported", "remove: decided",
		},
		"that is stopped":                      {"stop: decided", "stop: done"},
		"that sleeps and wakes and is stopped": {"sleep: recorded", "wake: decided", "start: recorded#2"},
	}
	for trouble, what := range map[string]daemonTrouble{"die": dies, "hang": hangs} {
		for story, all := range points {
			for _, point := range all {
				t.Run(fmt.Sprintf("daemons that %s at %s in the life of one %s", trouble, point, story), func(t *testing.T) {
					troubleAt(t, e, what, point, stories[story])
				})
			}
		}
	}
}

// troubleAt lets a story go on, on each runtime at once, with trouble of the daemons at
// the point.
func troubleAt(t *testing.T, e *engine.Engines, trouble daemonTrouble, point string, s story) {
	var nodes []*node
	var ids []string
	var releases []func()
	for l, on := range runtimes {
		n := newNode(t, lane(l).place(e, on))
		held, release := n.holdAt(point)
		n.Start()
		id := s.begin(n)
		s.goOn(n, id, "the agent held at "+point, func(protocol.TaskStatus) bool { return held() })
		nodes, ids, releases = append(nodes, n), append(ids, id), append(releases, release)
	}
	if err := trouble.begin(e, t); err != nil {
		t.Fatal(err)
	}
	for _, release := range releases {
		release()
	}
	for _, n := range nodes {
		trouble.met(n)
	}
	if err := trouble.end(e, t); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		s.finish(n, ids[i])
	}
}

func TestATaskThatEndsWhileItsDaemonIsDeadIsReportedAsItEnded(t *testing.T) {
	t.Parallel()
	e := ownEngines(t, engine.Options{})
	s := story{args: []string{"sleep", "1h"}, status: protocol.StatusFailed, reason: protocol.ReasonExited, code: 143, starts: 1}
	var nodes []*node
	var ids []string
	for l, on := range runtimes {
		n := newNode(t, lane(l).place(e, on))
		n.Start()
		nodes, ids = append(nodes, n), append(ids, s.begin(n))
	}
	var pids []int
	for i, n := range nodes {
		n.Beats("the task live", func(hb protocol.Heartbeat) bool { return len(hb.LiveTaskIDs) == 1 && n.starts(ids[i]) == 1 })
		pids = append(pids, n.Container(ids[i]).PID)
	}
	if err := dies.begin(e, t); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		if err := syscall.Kill(pids[i], syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		n.Eventually("it has ended", func() bool { return slices.Contains(n.noted(ids[i]), "end-143") })
	}
	if err := dies.end(e, t); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		s.finish(n, ids[i])
	}
}

func TestATaskThatDockerEndsWhenItIsStartedAgainIsReportedFailed(t *testing.T) {
	t.Parallel()
	e := ownEngines(t, engine.Options{EndsWithDocker: true})
	n := newNode(t, lane(0).place(e, runtime.Docker))
	n.Start()
	task := n.task("1", "sleep", "1h")
	n.Submit(task)
	// Docker has stored that it runs, not only begun to run it.
	n.Beats("the task live", func(hb protocol.Heartbeat) bool { return len(hb.LiveTaskIDs) == 1 && n.starts(task.ID) == 1 })
	if err := e.Docker.Kill(); err != nil {
		t.Fatal(err)
	}
	dies.met(n)
	if err := e.Docker.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	failed := n.Reaches(task.ID, protocol.StatusFailed)
	if code := failed.Outcome.ExitCode; failed.Outcome.Reason != protocol.ReasonExited || code == nil || *code != 143 && *code != 137 {
		t.Errorf("%+v", failed.Outcome)
	}
	n.awaitNothingLeft()
	if starts := n.starts(task.ID); starts != 1 || len(n.reports(task.ID)) != 1 {
		t.Errorf("started %d times, reported %d times", starts, len(n.reports(task.ID)))
	}
}

func TestAnAgentStartsBesideADaemonThatHangs(t *testing.T) {
	t.Parallel()
	e := ownEngines(t, engine.Options{})
	for l, on := range runtimes {
		t.Run(string(on), func(t *testing.T) {
			n := newNode(t, lane(l).place(e, on))
			if err := hangs.begin(e, t); err != nil {
				t.Fatal(err)
			}
			n.Start()
			n.Beats("it without a runtime", func(hb protocol.Heartbeat) bool { return noRuntime(hb) && hb.Sequence >= 5 })
			task := n.task("1", "exit", "0")
			n.Submit(task)
			n.Beats("it going on", func(hb protocol.Heartbeat) bool { return hb.Sequence >= 15 })
			if status := n.read(task.ID).Status; status != protocol.StatusScheduled {
				t.Errorf("the task is %s: nothing may be claimed before the runtime answers", status)
			}
			if err := hangs.end(e, t); err != nil {
				t.Fatal(err)
			}
			n.Reaches(task.ID, protocol.StatusCompleted)
			n.awaitNothingLeft()
		})
	}
}
