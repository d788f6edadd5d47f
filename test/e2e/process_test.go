package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/agent/process"
	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// Whether a container is deserted can be told only where its process is known for its own.
func TestTheProcessOfATaskIsKnownByItsCgroupUntilItIsGone(t *testing.T) {
	onEachRuntime(t, "", func(t *testing.T, on runtime.Name) {
		w := newWorldOn(t, on, devserver.Features{})
		w.Start()
		task := w.Task(w.Agent.NodeID+"-watched", "sleep", "10m")
		w.Submit(task)
		c := w.Runs(task.ID)
		proc := process.Table{Root: "/proc"}
		seen, ok := proc.Of(c.ID, c.PID)
		if !ok || proc.Gone(seen) {
			t.Errorf("process %d of container %s: got %+v, %v", c.PID, c.ID, seen, ok)
		}
		if other, ok := proc.Of(c.ID, 1); ok {
			t.Errorf("taken for it: %+v", other)
		}
		w.Eventually("the agent has noted it", func() bool {
			record, err := os.ReadFile(filepath.Join(w.Agent.StateDir(), "tasks", task.ID+".json"))
			return err == nil && strings.Contains(string(record), fmt.Sprintf(`"ticks": %d`, seen.Ticks))
		})
		w.Act(task.ID, operator.ActionStop)
		w.Reaches(task.ID, protocol.StatusStopped)
		w.Eventually("its process is gone", func() bool { return proc.Gone(seen) })
		w.Gone(task.ID)
	})
}
