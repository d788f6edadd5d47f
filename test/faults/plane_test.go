package faults

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/devserver/faults"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// troubles are what becomes of the agent's requests, for longer than it tries.
var troubles = map[string]faults.Fault{
	"is cut off":                  {Kind: faults.Reset},
	"never answers":               {Kind: faults.Hang},
	"answers 500":                 {Kind: faults.Status, Status: http.StatusInternalServerError},
	"answers 429":                 {Kind: faults.Status, Status: http.StatusTooManyRequests, RetryAfter: "1"},
	"answers with web pages":      {Kind: faults.HTMLPage, Status: http.StatusNotFound},
	"answers a byte at a time":    {Kind: faults.SlowBody, Delay: 20 * time.Millisecond},
	"breaks off its answers":      {Kind: faults.HalfClose},
	"does as asked and is silent": {Kind: faults.DropResponse},
}

// hasty makes minutes of the agent's patience with the control plane pass in seconds.
var hasty = []string{"server.timeout=1s", "report.attempts=2", "report.budget=1s", "tasks.wake_poll_period=2s"}

func fromAgent(r *http.Request) bool { return !strings.HasPrefix(r.URL.Path, "/api/v1/operator") }

// stages are when the trouble begins in which story, and which requests it hits.
var stages = map[string]struct {
	story story
	puts  bool // those that change something only
	begun func(n *node, id string, status protocol.TaskStatus) bool
}{
	"a claim":  {brief, false, func(*node, string, protocol.TaskStatus) bool { return true }},
	"a run":    {brief, false, func(n *node, id string, _ protocol.TaskStatus) bool { return n.starts(id) == 1 }},
	"a report": {awaited, true, func(n *node, id string, _ protocol.TaskStatus) bool { return n.starts(id) == 1 }},
	"a sleep": {stories["that sleeps and wakes and is stopped"], true, func(n *node, id string, status protocol.TaskStatus) bool {
		return status == protocol.StatusRunning && n.starts(id) == 1
	}},
	"a wake": {stories["that sleeps and wakes and is stopped"], true, func(_ *node, _ string, status protocol.TaskStatus) bool {
		return status == protocol.StatusAsleep
	}},
}

// Of two tasks the one ends some time after its start, the other not before the trouble has
// begun: its end is to be reported then.
var (
	brief   = story{args: []string{"sleep", "1s"}, status: protocol.StatusCompleted, reason: protocol.ReasonExited, starts: 1}
	awaited = story{args: []string{"await", "/notes/end"}, status: protocol.StatusCompleted, reason: protocol.ReasonExited, starts: 1}
)

func TestATaskSurvivesAControlPlaneInTroubleAtAnyStage(t *testing.T) {
	type trial struct{ stage, trouble string }
	var trials []trial
	for _, stage := range slices.Sorted(maps.Keys(stages)) {
		for _, trouble := range slices.Sorted(maps.Keys(troubles)) {
			trials = append(trials, trial{stage, trouble})
		}
	}
	e := calmEngines(t)
	inLanes(t, 4, slices.Values(trials),
		func(c trial) string { return fmt.Sprintf("one that %s from %s on", c.trouble, c.stage) },
		func(t *testing.T, l lane, c trial) {
			n := newNode(t, l.place(e, runtimes[int(l)%len(runtimes)]), hasty...)
			n.Start()
			n.Beats("a runtime", func(hb protocol.Heartbeat) bool { return hb.DockerAvailable })
			trouble, stage := troubles[c.trouble], stages[c.stage]
			s := stage.story
			trouble.Match = fromAgent
			enough := 12 // requests, of more than one loop
			if stage.puts {
				trouble.Method, enough = http.MethodPut, 3 // one more than the tries of the first delivery
				if applied := []faults.Kind{faults.SlowBody, faults.DropResponse, faults.HalfClose}; slices.Contains(applied, trouble.Kind) {
					enough = 1 // the agent reads the task, and finds it so
				}
			}
			var id string
			var active faults.Handle
			if c.stage == "a claim" {
				active = n.Plane.Faults.Add(trouble)
				id = s.begin(n)
			} else {
				id = s.begin(n)
				s.goOn(n, id, "the trouble begins", func(status protocol.TaskStatus) bool { return stage.begun(n, id, status) })
				active = n.Plane.Faults.Add(trouble)
			}
			if err := os.WriteFile(n.notes("end"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s.goOn(n, id, "the trouble lasts", func(protocol.TaskStatus) bool { return active.Hits() >= enough })
			n.Plane.Faults.Release() // those that hang, too
			s.finish(n, id)
		})
}

func TestWhatTheOperatorEndsDuringAPartitionIsStoppedAfterIt(t *testing.T) {
	ends := map[string]func(n *node, id string) error{
		"cancelled": func(n *node, id string) error {
			_, err := n.Plane.Operator.Act(n.T.Context(), id, operator.ActionCancel)
			return err
		},
		"moved": func(n *node, id string) error {
			_, err := n.Plane.Operator.Assign(n.T.Context(), id, "another-node")
			return err
		},
		"deleted": func(n *node, id string) error { return n.Plane.Operator.DeleteTask(n.T.Context(), id) },
	}
	e := calmEngines(t)
	inLanes(t, len(runtimes), slices.Values(runtimes), func(on runtime.Name) string { return string(on) }, func(t *testing.T, l lane, on runtime.Name) {
		n := newNode(t, l.place(e, on), hasty...)
		n.Start()
		ids := make(map[string]string)
		for name := range ends {
			task := n.task(name, "sleep", "1h")
			n.Submit(task)
			ids[name] = task.ID
		}
		stays := n.task("stays", "sleep", "1h")
		n.Submit(stays)
		for _, id := range append(slices.Collect(maps.Values(ids)), stays.ID) {
			n.Eventually(id+" runs", func() bool { return n.starts(id) == 1 })
		}
		cut := n.Plane.Faults.Add(faults.Fault{Kind: faults.Reset, Match: fromAgent})
		for name, end := range ends {
			if err := end(n, ids[name]); err != nil {
				t.Fatal(err)
			}
		}
		n.Eventually("the partition lasts", func() bool { return cut.Hits() >= 20 })
		if left := n.Containers(); len(left) != len(ends)+1 {
			t.Errorf("in the partition there are %d containers: nothing may be ended on a guess", len(left))
		}
		cut.Remove()
		n.Eventually("only what nobody has ended is left", func() bool { return len(n.Containers()) == 1 })
		if c := n.Container(stays.ID); !c.State.Alive() {
			t.Errorf("the one that stays is %s", c.State)
		}
		if got := n.reports(ids["cancelled"]); len(got) != 0 {
			t.Errorf("what the operator cancelled was reported: %+v", got)
		}
		n.Act(stays.ID, operator.ActionStop)
		n.Reaches(stays.ID, protocol.StatusStopped)
		n.awaitNothingLeft()
	})
}
