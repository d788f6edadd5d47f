package executor_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

func TestAContainerOfATaskThatIsOverGoesInWhateverStateItIsFound(t *testing.T) {
	stays := map[runtime.State]bool{ // until the runtime says something else
		runtime.StateCreated: false, runtime.StateRunning: false, runtime.StateExited: false, runtime.StateDead: false,
		runtime.StatePaused: true, runtime.StateRestarting: true, runtime.StateRemoving: true, runtime.StateUnknown: true, "future": true,
	}
	for state, stays := range stays {
		t.Run(string(state), func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.AddImage(image, runtimefake.Program{Runs: time.Minute})
				n.plane.add("1", image, func(t *protocol.Task) { t.Status = protocol.StatusCancelled })
				n.found(state)
				n.start()
				if stays {
					time.Sleep(20 * time.Minute)
					if calls := n.daemon.Calls(runtimefake.OpStop) + n.daemon.Calls(runtimefake.OpRemove); calls > 200 {
						t.Errorf("%d stops and removals in 20 minutes", calls)
					}
					n.daemon.Force("task-1", "")
				}
				n.ends(2*time.Minute, "1", protocol.StatusCancelled)
				if updates := n.plane.updates("1"); len(updates) != 0 {
					t.Errorf("reported: %+v", updates)
				}
			})
		})
	}
}

func TestEightTasksOutliveTheirAgentAndEndAsTheyEnded(t *testing.T) {
	const away = 10 * time.Minute
	onNode(t, func(n *node) {
		n.stop()
		n.workers = 8
		n.start()
		runs := make(map[string]time.Duration)
		for i := range n.workers {
			id, image := fmt.Sprint(i), fmt.Sprintf("registry.example/%d:v1", i)
			runs[id] = 5 * time.Minute // to end while no agent is there
			if i%2 == 1 {
				runs[id] = time.Hour
			}
			n.daemon.AddImage(image, runtimefake.Program{Runs: runs[id], Code: i})
			n.plane.add(id, image)
		}
		for id := range runs {
			n.runs(id)
		}
		n.kill()
		time.Sleep(away)
		n.start()
		for id, took := range runs {
			want := ending{protocol.StatusFailed, protocol.ReasonExited, int(id[0] - '0'), false}
			if want.Code == 0 {
				want.Status = protocol.StatusCompleted
			}
			n.ends(2*time.Hour, id, want.Status)
			updates := n.plane.updates(id, over...)
			if diff := cmp.Diff(want, endingOf(t, updates)); diff != "" {
				t.Errorf("task %s: %s", id, diff)
			}
			if from, to := updates[0].StartedAt, updates[0].FinishedAt; from == nil || to == nil || to.Sub(*from) != took {
				t.Errorf("task %s ran from %v to %v, want %v", id, from, to, took)
			}
			if n.starts(id, "1") != 1 {
				t.Errorf("task %s was started %d times", id, n.starts(id, "1"))
			}
		}
	})
}

func TestAnAgentThatStartsWithoutItsDaemonWaitsForItAndReportsNothing(t *testing.T) {
	running(t, runtimefake.Program{Runs: 10 * time.Minute, Code: 3}, func(n *node) {
		n.kill()
		n.daemon.Stop()
		n.start()
		lines := n.logs.Len()
		time.Sleep(20 * time.Minute)
		if updates := n.plane.updates("1", over...); len(updates) != 0 {
			t.Errorf("reported: %+v", updates)
		}
		if lines = n.logs.Len() - lines; lines > 1000 {
			t.Errorf("%d lines in 20 minutes", lines)
		}
		n.plane.add("2", image)
		time.Sleep(time.Minute)
		if n.plane.status("2") != protocol.StatusScheduled {
			t.Errorf("claimed without a runtime: %s", n.plane.status("2"))
		}
		n.plane.remove("2")
		n.daemon.Resume()
		n.ends(5*time.Minute, "1", protocol.StatusFailed)
		n.ranOnce(3)
	})
}
