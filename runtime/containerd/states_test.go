package containerd

import (
	"testing"
	"time"

	tasktypes "github.com/containerd/containerd/api/types/task"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd/record"
)

func TestEachStatusOfATaskIsAState(t *testing.T) {
	started := &record.Run{ID: "1", StartedAt: time.Now()}
	failed := &record.Run{ID: "1", StartedAt: time.Now(), StartError: "no program"}
	type states struct{ never, started, failed runtime.State }
	cases := map[tasktypes.Status]states{
		tasktypes.Status_UNKNOWN: {runtime.StateUnknown, runtime.StateUnknown, runtime.StateUnknown},
		tasktypes.Status_CREATED: {runtime.StateCreated, runtime.StateCreated, runtime.StateCreated},
		tasktypes.Status_RUNNING: {runtime.StateRunning, runtime.StateRunning, runtime.StateRunning},
		tasktypes.Status_PAUSED:  {runtime.StatePaused, runtime.StatePaused, runtime.StatePaused},
		tasktypes.Status_PAUSING: {runtime.StatePaused, runtime.StatePaused, runtime.StatePaused},
		tasktypes.Status_STOPPED: {runtime.StateCreated, runtime.StateExited, runtime.StateCreated},
	}
	for number, name := range tasktypes.Status_name {
		want, ok := cases[tasktypes.Status(number)]
		if !ok {
			t.Errorf("%s has no state", name)
			continue
		}
		task := &tasktypes.Process{Status: tasktypes.Status(number)}
		got := states{observed{task: task}.state(), observed{task: task, run: started}.state(), observed{task: task, run: failed}.state()}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
	none := states{observed{}.state(), observed{run: started}.state(), observed{run: failed}.state()}
	if want := (states{runtime.StateCreated, runtime.StateExited, runtime.StateCreated}); none != want {
		t.Errorf("no task: got %+v, want %+v", none, want)
	}
}
