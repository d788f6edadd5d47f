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
		w.start()
		// Not in the last heartbeat: an unchanged inventory is left out of it.
		w.eventually("the control plane knows a card", func() bool {
			node, err := w.plane.Operator.Node(t.Context(), w.agent.NodeID)
			return err == nil && len(node.GPUs) == 1 && node.GPUs[0].Type == protocol.DeviceVirtual
		})
		card := []protocol.TaskDevice{{Vendor: protocol.DeviceVirtual, Index: new(0)}}
		first := w.task(w.agent.NodeID+"-first", "train", "--steps", "100000", "--checkpoint-dir", "/tmp")
		first.Devices = card
		w.submit(first)
		w.prints(first.ID, "step 2")
		specs, err := filepath.Glob(filepath.Join(w.agent.Dir, "cdi", "heteroflow-*.json"))
		if err != nil || len(specs) != 1 {
			t.Errorf("CDI specs: %v, %v", specs, err)
		}

		second := w.task(w.agent.NodeID+"-second", "exit", "0")
		second.Devices = card
		w.submit(second)
		refused := w.reaches(second.ID, protocol.StatusFailed)
		if refused.Outcome.Reason != protocol.ReasonGPUConflict || !strings.Contains(refused.Outcome.ErrorMessage, first.ID) {
			t.Errorf("second: %+v", refused.Outcome)
		}
		missing := w.task(w.agent.NodeID+"-missing", "exit", "0")
		missing.Devices = []protocol.TaskDevice{{Vendor: protocol.DeviceVirtual, Index: new(7)}}
		w.submit(missing)
		if got := w.reaches(missing.ID, protocol.StatusFailed); got.Outcome.Reason != protocol.ReasonGPUUnavailable {
			t.Errorf("missing: %+v", got.Outcome)
		}

		w.eventually("only the first task is in the journal", func() bool {
			records, err := os.ReadDir(filepath.Join(w.agent.StateDir(), "tasks"))
			return err == nil && len(records) == 1
		})

		// The lease outlives the agent, and ends with the container.
		w.agent.Kill()
		w.start()
		w.beats("the task live", func(hb protocol.Heartbeat) bool { return len(hb.LiveTaskIDs) == 1 })
		again := w.task(w.agent.NodeID+"-again", "exit", "0")
		again.Devices = card
		w.submit(again)
		if got := w.reaches(again.ID, protocol.StatusFailed); got.Outcome.Reason != protocol.ReasonGPUConflict {
			t.Errorf("again: %+v", got.Outcome)
		}
		w.act(first.ID, "stop")
		w.reaches(first.ID, protocol.StatusStopped)
		w.gone(first.ID)
		last := w.task(w.agent.NodeID+"-last", "print-env")
		last.Devices = card
		last.Env = []string{"NVIDIA_VISIBLE_DEVICES=all", "KEPT=1"}
		w.submit(last)
		done := w.reaches(last.ID, protocol.StatusCompleted)
		if strings.Contains(done.Outcome.LogTail, "NVIDIA_VISIBLE_DEVICES=all") || !strings.Contains(done.Outcome.LogTail, "KEPT=1") {
			t.Errorf("environment: %s", done.Outcome.LogTail)
		}
		w.gone(last.ID)
		w.eventually("the journal holds no task", func() bool {
			left, err := os.ReadDir(filepath.Join(w.agent.StateDir(), "tasks"))
			return err == nil && len(left) == 0
		})
	})
}
