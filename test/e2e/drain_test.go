package e2e

import (
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

func TestADrainedNodeFinishesWhatItHasAndTakesNothingNew(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	w.Start()
	id := w.Agent.NodeID
	running, waiting := id+"-running", id+"-waiting"
	w.Submit(w.Task(running, "train", "--steps", "100000", "--checkpoint-dir", "/tmp"))
	w.Prints(running, "step 2")

	command(w, 0, "drain", "--reason", "new fans")
	w.Submit(w.Task(waiting, "exit", "0"))
	isDrained := func(hb protocol.Heartbeat) bool {
		return hb.State == protocol.NodeDraining && len(hb.DrainedBy) == 1 &&
			hb.DrainedBy[0].By == protocol.DrainByOperator && hb.DrainedBy[0].Reason == "new fans"
	}
	hb := w.Beats("the node draining", isDrained)
	w.Eventually("status says so, too", func() bool {
		out, code := run(t, "status", "--set", "state_dir="+w.Agent.StateDir())
		return code == 0 && strings.Contains(out, "(draining)") && strings.Contains(out, "by operator "+hb.DrainedBy[0].User)
	})

	w.Agent.Kill()
	w.Start()
	after := w.Beats("the next agent draining, with its task", func(now protocol.Heartbeat) bool {
		return now.InstanceID != hb.InstanceID && len(now.LiveTaskIDs) == 1
	})
	if !isDrained(after) || after.LiveTaskIDs[0] != running {
		t.Errorf("the next agent: %s, by %+v, tasks %q", after.State, after.DrainedBy, after.LiveTaskIDs)
	}
	w.Act(running, "stop")
	w.Reaches(running, protocol.StatusStopped)
	w.Gone(running)
	last := w.Beats("nothing left", func(now protocol.Heartbeat) bool {
		return now.InstanceID == after.InstanceID && len(now.LiveTaskIDs) == 0
	})
	// It had every chance to claim meanwhile: a place is free, and it was told of the task.
	w.Beats("a few more rounds", func(now protocol.Heartbeat) bool { return now.Sequence >= last.Sequence+4 })
	if task, err := w.Plane.Operator.Task(t.Context(), waiting); err != nil || task.Status != protocol.StatusScheduled {
		t.Fatalf("the new task is %s, %v", task.Status, err)
	}

	command(w, 0, "undrain")
	w.Reaches(waiting, protocol.StatusCompleted)
	w.Gone(waiting)
	w.Beats("the node online", func(now protocol.Heartbeat) bool { return now.State == protocol.NodeOnline && now.DrainedBy == nil })
}

func TestTheControlPlaneDrainsANodeToo(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	w.Start()
	id := w.Agent.NodeID
	drain := func(on bool) {
		if err := w.Plane.Operator.Drain(t.Context(), id, on); err != nil {
			t.Fatal(err)
		}
	}
	drain(true)
	w.Beats("the node draining", func(hb protocol.Heartbeat) bool {
		return hb.State == protocol.NodeDraining && len(hb.DrainedBy) == 1 && hb.DrainedBy[0].By == protocol.DrainByServer
	})
	w.Submit(w.Task(id, "exit", "0"))
	w.Eventually("undrain says who still drains the node", func() bool {
		return strings.Contains(command(w, 0, "undrain"), "control plane still wants it drained")
	})
	if node, err := w.Plane.Operator.Node(t.Context(), id); err != nil || node.State != operator.StateDraining {
		t.Errorf("the node is %s, %v", node.State, err)
	}
	if task, err := w.Plane.Operator.Task(t.Context(), id); err != nil || task.Status != protocol.StatusScheduled {
		t.Errorf("the task is %s, %v", task.Status, err)
	}
	drain(false)
	w.Reaches(id, protocol.StatusCompleted)
	w.Gone(id)
}
