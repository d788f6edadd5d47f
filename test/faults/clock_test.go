package faults

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/devserver/faults"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// A clockStep sets the clock of an agent at a moment of a task's life. The daemons, the
// control plane and the test keep theirs.
type clockStep struct {
	ahead time.Duration
	file  string // where the agent reads it
}

// set sets the clock, and a heartbeat tells that the agent has the new one.
func (c clockStep) set(n *node) {
	n.T.Helper()
	c.write(n)
	n.Beats("the clock that was set", func(hb protocol.Heartbeat) bool {
		return (time.Until(hb.SentAt) - c.ahead).Abs() < time.Hour
	})
}

func (c clockStep) write(n *node) {
	n.T.Helper()
	if err := os.WriteFile(c.file+".new", []byte(c.ahead.String()), 0o600); err != nil {
		n.T.Fatal(err)
	}
	if err := os.Rename(c.file+".new", c.file); err != nil {
		n.T.Fatal(err)
	}
}

// limit is the time limit of the tasks that reach it.
const limit = 3 * time.Second

func overTime(limit time.Duration) story {
	return story{
		args: []string{"sleep", "1h"}, task: func(t *protocol.Task) { t.TimeoutSeconds = int64(limit / time.Second) },
		status: protocol.StatusFailed, reason: protocol.ReasonTimeout, code: 124, starts: 1,
	}
}

// beginSupervised begins the story and waits until the agent sees its program run.
func (s story) beginSupervised(n *node) string {
	n.T.Helper()
	id := s.begin(n)
	n.Eventually("the agent sees it run", func() bool { return strings.Contains(n.Agent.Log(), `"to":"running"`) })
	return id
}

// hadItsTime checks that the task's program ran for as long as its limit says at least.
func (n *node) hadItsTime(id string) {
	n.T.Helper()
	const slewed = 100 * time.Millisecond // at most, by what keeps the machine's own clock right
	o := n.read(id).Outcome
	if o.StartedAt == nil || o.FinishedAt == nil || o.FinishedAt.Sub(*o.StartedAt) < limit-slewed {
		n.T.Errorf("it ran from %v to %v, and its time limit is %v", o.StartedAt, o.FinishedAt, limit)
	}
}

var clockSteps = map[string]func(n *node, step clockStep){
	"while a task runs that has a time limit": func(n *node, step clockStep) {
		s := overTime(limit)
		id := s.beginSupervised(n)
		step.set(n)
		s.finish(n, id)
		n.hadItsTime(id)
	},
	"while the end of a task is reported": func(n *node, step clockStep) {
		s := stories["that is stopped"]
		id := s.begin(n)
		n.Eventually("it runs", func() bool { return n.starts(id) == 1 })
		refused := n.Plane.Faults.Add(faults.Fault{
			Kind: faults.Status, Status: http.StatusServiceUnavailable, Method: http.MethodPut, Match: fromAgent,
		})
		n.Act(id, operator.ActionStop)
		n.Eventually("the report is refused", func() bool { return refused.Hits() >= 2 })
		step.set(n)
		before := refused.Hits()
		n.Eventually("it is tried again", func() bool { return refused.Hits() >= before+2 })
		refused.Remove()
		s.finish(n, id)
	},
	"before the agent is started again": func(n *node, step clockStep) {
		long, short := overTime(time.Hour), overTime(limit) // by the clock both may be over
		goesOn, ends := long.beginSupervised(n), short.begin(n)
		n.Eventually("both run", func() bool { return n.starts(ends) == 1 })
		n.Agent.Kill()
		step.write(n)
		n.Start()
		n.Reaches(ends, short.status)
		n.hadItsTime(ends)
		n.Act(goesOn, operator.ActionStop)
		if stopped := n.Reaches(goesOn, protocol.StatusStopped); stopped.Outcome.Reason != protocol.ReasonStopped {
			n.T.Errorf("it was not over its time: %+v", stopped.Outcome)
		}
		short.finish(n, ends)
	},
}

func TestATaskEndsOnceAndInItsTimeThoughTheClockIsSet(t *testing.T) {
	type trial struct {
		when  string
		ahead time.Duration
		on    runtime.Name
	}
	var trials []trial
	for i, when := range slices.Sorted(maps.Keys(clockSteps)) {
		for j, ahead := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
			trials = append(trials, trial{when, ahead, runtimes[(i+j)%len(runtimes)]})
		}
	}
	e := calmEngines(t)
	inLanes(t, 4, slices.Values(trials),
		func(c trial) string { return fmt.Sprintf("by %v %s on %s", c.ahead, c.when, c.on) },
		func(t *testing.T, l lane, c trial) {
			n := newNode(t, l.place(e, c.on))
			step := clockStep{ahead: c.ahead, file: filepath.Join(n.Agent.Dir, "clock")}
			n.Agent.Env = []string{"HFTEST_CLOCK=" + step.file}
			n.Start()
			clockSteps[c.when](n, step)
		})
}
