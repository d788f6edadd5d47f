package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

// What a power loss may leave of the state costs no running task: its container is taken
// over by its labels, and the operator hears of the file.
func TestADamagedStateIsSetAsideToldAndRebuiltFromTheContainers(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	w.Start()
	task := w.Task(w.Agent.NodeID+"-goes-on", "sleep", "10m")
	w.Submit(task)
	w.Reaches(task.ID, protocol.StatusRunning)
	before := w.Runs(task.ID)
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

// As on a disk that was copied to another machine together with its configuration.
func TestTheStateOfAnotherMachineIsSetAsideAndTold(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	w.Start()
	w.Beats("its state written", func(hb protocol.Heartbeat) bool { return hb.DockerAvailable && hb.ErrorMessage == "" })
	w.Agent.Kill()
	file := filepath.Join(w.Agent.StateDir(), "machine", "identity.json")
	record, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(`"machine_id": "[^"]+"`).ReplaceAll(record, []byte(`"machine_id": "another"`))
	if err := os.WriteFile(file, other, 0o600); err != nil {
		t.Fatal(err)
	}
	w.Start()
	hb := w.Beats("whose state it was", func(hb protocol.Heartbeat) bool { return strings.Contains(hb.ErrorMessage, "cloned disk") })
	_, aside, _ := strings.Cut(hb.ErrorMessage, "start: ")
	if kept, err := os.ReadFile(filepath.Join(aside, "machine", "identity.json")); err != nil || string(kept) != string(other) {
		t.Errorf("%q was kept, %v: %s", kept, err, hb.ErrorMessage)
	}
}

// No record is to be written here; what an operator sees is all that suffers.
func TestAnIdleAgentTellsThatItsStateDirectoryCannotBeWritten(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	obstacle := filepath.Join(w.Agent.StateDir(), "status.json.new")
	if err := os.MkdirAll(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	w.Start()
	w.Beats("word of it", func(hb protocol.Heartbeat) bool {
		return strings.Contains(hb.ErrorMessage, "state directory cannot be written") && strings.Contains(hb.ErrorMessage, obstacle)
	})
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	w.Beats("all is well", func(hb protocol.Heartbeat) bool { return hb.DockerAvailable && hb.ErrorMessage == "" })
}
