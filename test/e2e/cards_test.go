package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// The node has one virtual card. A task holds it alone until its container is gone.
func TestATaskGetsItsCardAndASecondOneIsRefused(t *testing.T) {
	onEachRuntime(t, "", func(t *testing.T, on runtime.Name) {
		w := newWorldOn(t, on, devserver.Features{})
		w.Start()
		// Not in the last heartbeat: an unchanged inventory is left out of it.
		w.Eventually("the control plane knows a card", func() bool {
			node, err := w.Plane.Operator.Node(t.Context(), w.Agent.NodeID)
			return err == nil && len(node.GPUs) == 1 && node.GPUs[0].Type == protocol.DeviceVirtual
		})
		card := []protocol.TaskDevice{{Vendor: protocol.DeviceVirtual, Index: new(0)}}
		first := w.Task(w.Agent.NodeID+"-first", "train", "--steps", "100000", "--checkpoint-dir", "/tmp")
		first.Devices = card
		w.Submit(first)
		w.Prints(first.ID, "step 2")
		w.Eventually("there is a CDI spec", func() bool {
			specs, err := filepath.Glob(filepath.Join(w.Agent.Dir, "cdi", "heteroflow-*.json"))
			return err == nil && len(specs) == 1
		})

		second := w.Task(w.Agent.NodeID+"-second", "exit", "0")
		second.Devices = card
		w.Submit(second)
		refused := w.Reaches(second.ID, protocol.StatusFailed)
		if refused.Outcome.Reason != protocol.ReasonGPUConflict || !strings.Contains(refused.Outcome.ErrorMessage, first.ID) {
			t.Errorf("second: %+v", refused.Outcome)
		}
		missing := w.Task(w.Agent.NodeID+"-missing", "exit", "0")
		missing.Devices = []protocol.TaskDevice{{Vendor: protocol.DeviceVirtual, Index: new(7)}}
		w.Submit(missing)
		if got := w.Reaches(missing.ID, protocol.StatusFailed); got.Outcome.Reason != protocol.ReasonGPUUnavailable {
			t.Errorf("missing: %+v", got.Outcome)
		}

		w.Eventually("only the first task is in the journal", func() bool {
			records, err := os.ReadDir(filepath.Join(w.Agent.StateDir(), "tasks"))
			return err == nil && len(records) == 1
		})

		// The lease outlives the agent, and ends with the container.
		w.Agent.Kill()
		w.Start()
		w.Beats("the task live", func(hb protocol.Heartbeat) bool { return len(hb.LiveTaskIDs) == 1 })
		again := w.Task(w.Agent.NodeID+"-again", "exit", "0")
		again.Devices = card
		w.Submit(again)
		if got := w.Reaches(again.ID, protocol.StatusFailed); got.Outcome.Reason != protocol.ReasonGPUConflict {
			t.Errorf("again: %+v", got.Outcome)
		}
		w.Act(first.ID, "stop")
		w.Reaches(first.ID, protocol.StatusStopped)
		w.Gone(first.ID)
		last := w.Task(w.Agent.NodeID+"-last", "print-env")
		last.Devices = card
		last.Env = []string{"NVIDIA_VISIBLE_DEVICES=all", "KEPT=1"}
		w.Submit(last)
		done := w.Reaches(last.ID, protocol.StatusCompleted)
		if strings.Contains(done.Outcome.LogTail, "NVIDIA_VISIBLE_DEVICES=all") || !strings.Contains(done.Outcome.LogTail, "KEPT=1") {
			t.Errorf("environment: %s", done.Outcome.LogTail)
		}
		w.Gone(last.ID)
		w.Eventually("the journal holds no task", func() bool {
			left, err := os.ReadDir(filepath.Join(w.Agent.StateDir(), "tasks"))
			return err == nil && len(left) == 0
		})
	})
}
