package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// What a power loss may leave of the state costs no running task: its container is taken
// over by its labels, and the operator hears of the file.
func TestADamagedStateIsSetAsideToldAndRebuiltFromTheContainers(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	w.Start()
	task := w.Task(w.Agent.NodeID+"-goes-on", "sleep", "10m")
	w.Submit(task)
	w.Reaches(task.ID, protocol.StatusRunning)
	w.Eventually("its container runs", func() bool {
		all := w.Containers()
		return len(all) == 1 && all[0].State == runtime.StateRunning
	})
	before := w.Container(task.ID)
	w.Agent.Kill()
	file := filepath.Join(w.Agent.StateDir(), "tasks", task.ID+".json")
	if err := os.Truncate(file, 20); err != nil {
		t.Fatal(err)
	}
	w.Start()
	w.Beats("the file that was set aside", func(hb protocol.Heartbeat) bool {
		return strings.Contains(hb.ErrorMessage, file+".corrupt-")
	})
	if now := w.Container(task.ID); now.ID != before.ID || !now.StartedAt.Equal(before.StartedAt) {
		t.Errorf("it was %+v and is %+v", before, now)
	}
	w.Act(task.ID, operator.ActionStop)
	w.Reaches(task.ID, protocol.StatusStopped)
	w.Gone(task.ID)
}
