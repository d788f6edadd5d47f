package e2e

import (
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

func TestAYoungContainerOfATaskThatWasMovedIsSpared(t *testing.T) {
	onEachRuntime(t, "", func(t *testing.T, on runtime.Name) {
		w := newWorldOn(t, on, devserver.Features{}, "tasks.min_container_age=1h")
		w.Start()
		task := w.Task(w.Agent.NodeID+"-moved", "sleep", "1h")
		w.Submit(task)
		w.Reaches(task.ID, protocol.StatusRunning)
		before := w.Runs(task.ID)
		if _, err := w.Plane.Operator.Assign(t.Context(), task.ID, "another-node"); err != nil {
			t.Fatal(err)
		}
		spared := func(times int) func() bool {
			return func() bool { return strings.Count(w.Agent.Log(), "too young to go by that") == times }
		}
		w.Eventually("it is spared", spared(1))
		if err := w.Agent.Stop(); err != nil {
			t.Fatal(err)
		}
		w.Start()
		w.Eventually("the next agent spares it", spared(2))
		if now := w.Container(task.ID); now.State != runtime.StateRunning || now.PID != before.PID {
			t.Errorf("it was %+v and is %+v", before, now)
		}
		if err := w.Agent.Stop(); err != nil {
			t.Fatal(err)
		}
		w.Agent.Set = append(w.Agent.Set, "tasks.min_container_age=0s")
		w.Start()
		w.Gone(task.ID)
	})
}
