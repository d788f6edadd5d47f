// Package faults makes everything around a task fail, on the real Docker and the real
// containerd: the agent dies at each of its crash points, the control plane and the
// daemons do at every stage of a task's life, the disk fills up, and schedules of all
// that are drawn at random. Whatever happens, each task ends once, as it truly ended, and
// nothing of it is left.
//
// The agent is a process of its own, built with the tag faults. The daemons are the
// test's own, so that it may kill them.
package faults

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// story is a task's life, and how it must end whatever happens on the way.
type story struct {
	args []string
	task func(*protocol.Task)
	// tell has the operator change his mind, given where the task stands.
	tell   func(n *node, id string, status protocol.TaskStatus)
	status protocol.TaskStatus
	reason protocol.Reason
	code   int
	starts int // of its program
}

var stories = map[string]story{
	"that ends by itself": {
		args: []string{"exit", "3"}, status: protocol.StatusFailed, reason: protocol.ReasonExited, code: 3, starts: 1,
	},
	"that ends by itself and has a network": {
		args: []string{"exit", "0"}, task: func(t *protocol.Task) { t.Network = protocol.NetworkBridge },
		status: protocol.StatusCompleted, reason: protocol.ReasonExited, starts: 1,
	},
	"that cannot be started": {
		task:   func(t *protocol.Task) { t.Command = []string{"/no/such/program"} },
		status: protocol.StatusFailed, reason: protocol.ReasonStartFailed, code: -1,
	},
	"that takes too long": {
		args: []string{"sleep", "1h"}, task: func(t *protocol.Task) { t.TimeoutSeconds = 3 }, // in which it notes its start
		status: protocol.StatusFailed, reason: protocol.ReasonTimeout, code: 124, starts: 1,
	},
	"that is stopped": {
		args: []string{"sleep", "1h"},
		tell: func(n *node, id string, status protocol.TaskStatus) {
			if status == protocol.StatusRunning && n.starts(id) == 1 {
				n.tries(id, operator.ActionStop)
			}
		},
		status: protocol.StatusStopped, reason: protocol.ReasonStopped, code: 143, starts: 1,
	},
	"that sleeps and wakes and is stopped": {
		args: []string{"sleep", "1h"},
		tell: func(n *node, id string, status protocol.TaskStatus) {
			switch {
			case n.told == 0 && status == protocol.StatusRunning && n.starts(id) == 1 && n.tries(id, operator.ActionSleep),
				n.told == 1 && status == protocol.StatusAsleep && n.tries(id, operator.ActionWake):
				n.told++
			case n.told == 2 && status == protocol.StatusRunning && n.starts(id) == 2:
				n.tries(id, operator.ActionStop)
			}
		},
		status: protocol.StatusStopped, reason: protocol.ReasonStopped, code: 143, starts: 2,
	},
}

// begin submits the story's task and returns its id.
func (s story) begin(n *node) string {
	n.told = 0
	n.begun++
	task := n.task(strconv.Itoa(n.begun), s.args...)
	if s.task != nil {
		s.task(&task)
	}
	n.Submit(task)
	return task.ID
}

// goOn lets the story go on until the condition holds.
func (s story) goOn(n *node, id, what string, until func(status protocol.TaskStatus) bool) {
	n.T.Helper()
	n.Eventually(what, func() bool {
		status := n.read(id).Status
		if until(status) {
			return true
		}
		if s.tell != nil {
			s.tell(n, id, status)
		}
		return false
	})
}

// finish lets the story go on to its end and checks that this is the true one.
func (s story) finish(n *node, id string) {
	n.T.Helper()
	s.goOn(n, id, "the task over", protocol.TaskStatus.Terminal)
	n.awaitNothingLeft()
	task := n.read(id)
	code := -1
	if task.Outcome.ExitCode != nil {
		code = *task.Outcome.ExitCode
	}
	if task.Status != s.status || task.Outcome.Reason != s.reason || code != s.code {
		n.T.Errorf("the task is %s (%s, code %d: %s), want %s (%s, %d)",
			task.Status, task.Outcome.Reason, code, task.Outcome.ErrorMessage, s.status, s.reason, s.code)
	}
	if ends := n.reports(id); len(ends) != 1 {
		n.T.Errorf("reported %d times: %+v", len(ends), ends)
	}
	if starts := n.starts(id); starts != s.starts {
		n.T.Errorf("its program was started %d times, want %d: %q", starts, s.starts, n.noted(id))
	}
}

// crash is a death of the agent: where, and in which story it gets there.
type crash struct {
	point string // with #N: at the N-th time
	story string
	only  runtime.Name // empty: on each
}

func crashes() []crash {
	var all []crash
	in := func(story string, only runtime.Name, points ...string) {
		for _, p := range points {
			all = append(all, crash{point: p, story: story, only: only})
		}
	}
	in("that ends by itself", "",
		"claim: before the record", "claim: recorded", "claim: won", "launch: image there", "launch: created",
		"start: recorded", "start: done", "end: seen", "result: recorded", "result: reported", "result: forgotten",
		"remove: decided", "remove: done", "remove: forgotten")
	in("that takes too long", "", "time limit: recorded", "stop: decided", "stop: done")
	in("that is stopped", "", "stop: decided", "stop: done", "result: reported")
	in("that sleeps and wakes and is stopped", "", "sleep: recorded", "stop: done", "sleep: reported", "wake: decided",
		"start: recorded#2", "start: done#2", "wake: reported", "result: recorded#2")
	in("that cannot be started", "", "start: done", "result: recorded")
	// The first times are the node's own records, the last the results.
	for n := range 10 {
		in("that ends by itself", runtime.Docker, fmt.Sprintf("journal: written#%d", n+1))
	}
	in("that ends by itself", runtime.Docker, "journal: named", "journal: named#3", "journal: named#4")
	in("that is stopped", runtime.Containerd, "containerd: stop signal sent")
	in("that ends by itself", runtime.Containerd,
		"containerd: pull leased", "containerd: image unpacked", "containerd: file system made", "containerd: files written", "containerd: container made",
		"containerd: run begun", "containerd: task made", "containerd: task started", "containerd: end kept", "containerd: task gone",
		"containerd: network gone", "containerd: container gone", "containerd: file system gone")
	in("that ends by itself and has a network", runtime.Containerd,
		"containerd: network namespace made", "containerd: network up", "containerd: task made", "containerd: start asked",
		"containerd: network disconnected", "containerd: network gone")
	in("that sleeps and wakes and is stopped", runtime.Containerd,
		"containerd: run begun#2", "containerd: task made#2", "containerd: start asked#2", "containerd: task started#2")
	return all
}

// liveUntilDeath lets the story go on until the agent has died at the point. Some points
// lie on one of two ways, and it is chance which one a task takes: then there is another.
func (s story) liveUntilDeath(n *node, point string) (id string) {
	n.T.Helper()
	for range maxTries {
		id = s.begin(n)
		s.goOn(n, id, "the agent dead, or the task over", func(status protocol.TaskStatus) bool {
			return n.agentIsDead() || status.Terminal() && len(n.owed()) == 0
		})
		if n.agentIsDead() {
			return id
		}
		s.finish(n, id)
	}
	n.T.Fatalf("the agent does not get to %s", point)
	return ""
}

// maxTries is in how many lives of a task the agent must get to its crash point.
const maxTries = 5

func TestATaskSurvivesTheDeathOfItsAgentAtEachCrashPoint(t *testing.T) {
	type place struct {
		crash
		on runtime.Name
	}
	var cases []place
	for _, c := range crashes() {
		for _, on := range runtimes {
			if c.only == "" || c.only == on {
				cases = append(cases, place{c, on})
			}
		}
	}
	e := calmEngines(t)
	inLanes(t, 4, slices.Values(cases),
		func(c place) string { return fmt.Sprintf("%s in the life of one %s on %s", c.point, c.story, c.on) },
		func(t *testing.T, l lane, c place) {
			n := newNode(t, l.place(e, c.on))
			s := stories[c.story]
			n.Agent.Env = []string{"CRASHPOINT=" + c.point}
			n.Start()
			id := s.liveUntilDeath(n, c.point)
			n.Agent.Env = nil
			n.Start()
			s.finish(n, id)
		})
}

var runtimes = []runtime.Name{runtime.Docker, runtime.Containerd}

// reached are the crash points in the program's source, by name.
func reached(t *testing.T) []string {
	t.Helper()
	found := make(map[string]bool)
	for _, dir := range []string{"../../agent", "../../runtime"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok {
					return true
				}
				if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "Reach" || fmt.Sprint(f.X) != "crashpoint" {
					return true
				}
				literal, ok := call.Args[0].(*ast.BasicLit)
				if !ok {
					t.Errorf("%s: a crash point whose name is no literal", path)
					return true
				}
				name, err := strconv.Unquote(literal.Value)
				if err != nil || found[name] {
					t.Errorf("%s: crash point %s: there are two of that name, or none, %v", path, literal.Value, err)
				}
				found[name] = true
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func TestEachCrashPointOfTheAgentIsOneOfThisSuite(t *testing.T) {
	suite := make(map[string]bool)
	for _, c := range crashes() {
		name, _, _ := strings.Cut(c.point, "#")
		suite[name] = true
	}
	if diff := cmp.Diff(reached(t), slices.Sorted(maps.Keys(suite))); diff != "" {
		t.Errorf("in the source, but not in the suite (-), and the other way round (+):\n%s", diff)
	}
}
