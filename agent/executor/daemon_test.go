package executor_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

func TestACallThatGoesWrongFailsNoTaskAndRunsNothingTwice(t *testing.T) {
	ops := map[runtimefake.Op]bool{ // whether it has an effect that can be lost sight of
		runtimefake.OpImage: false, runtimefake.OpCreate: true, runtimefake.OpStart: true,
		runtimefake.OpWait: false, runtimefake.OpInspect: false, runtimefake.OpRemove: true, runtimefake.OpList: false,
	}
	for op, acts := range ops {
		faults := map[string]runtimefake.Fault{
			"fails three times": {Times: 3},
			"hangs":             {Times: 2, Hangs: true},
		}
		if acts {
			faults["is done and not answered"] = runtimefake.Fault{Times: 1, Applied: true}
			faults["is done and not answered three times"] = runtimefake.Fault{Times: 3, Applied: true}
		}
		for what, f := range faults {
			for _, runs := range []time.Duration{0, time.Minute} {
				t.Run(fmt.Sprintf("%s %s, the program runs %v", op, what, runs), func(t *testing.T) {
					onNode(t, func(n *node) {
						n.daemon.AddImage(image, runtimefake.Program{Runs: runs, Code: 3})
						f.Op = op
						n.daemon.Inject(f)
						n.plane.add("1", image)
						n.ends(10*time.Minute, "1", protocol.StatusFailed)
						n.ranOnce(3)
					})
				})
			}
		}
	}
}

// ranOnce checks that the task's one container ran once and its true end was reported once.
func (n *node) ranOnce(code int) {
	n.t.Helper()
	want := ending{protocol.StatusFailed, protocol.ReasonExited, code, false}
	if diff := cmp.Diff(want, endingOf(n.t, n.plane.updates("1", over...))); diff != "" {
		n.t.Error(diff)
	}
	if starts, made := n.starts("1", "1"), n.daemon.Made(); starts != 1 || made != 1 {
		n.t.Errorf("%d starts of %d containers", starts, made)
	}
}

func TestAStartThatNobodyAnsweredUntilTheProgramWasOverIsTheOnlyOne(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Runs: 2 * time.Second, Code: 3})
		n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpStart, Times: 1, Applied: true})
		n.plane.add("1", image)
		n.runs("1")
		n.daemon.Stop()
		time.Sleep(time.Minute)
		n.daemon.Resume()
		n.ends(3*time.Minute, "1", protocol.StatusFailed)
		n.ranOnce(3)
	})
}

func TestADaemonThatIsAwayInAnyPhaseFailsNoTask(t *testing.T) {
	phases := map[string]func(n *node) bool{
		"while the image is pulled":      func(n *node) bool { return n.daemon.Pulls(image) == 1 },
		"before the container is made":   func(n *node) bool { return len(n.plane.updates("1", protocol.StatusRunning)) == 1 },
		"after the container was made":   func(n *node) bool { return n.state("1") == runtime.StateCreated },
		"while it runs":                  func(n *node) bool { return n.state("1") == runtime.StateRunning },
		"when it has just ended":         func(n *node) bool { return n.state("1") == runtime.StateExited },
		"when it has just been reported": func(n *node) bool { return n.plane.status("1") == protocol.StatusFailed },
	}
	for phase, reached := range phases {
		for _, away := range []time.Duration{3 * time.Second, 10 * time.Minute} {
			t.Run(fmt.Sprintf("%s, for %v", phase, away), func(t *testing.T) {
				onNode(t, func(n *node) {
					n.daemon.Publish(image, runtimefake.Published{Takes: 10 * time.Second, Program: runtimefake.Program{Runs: 20 * time.Second, Code: 3}})
					var gone atomic.Bool
					n.atMoments(func() {
						if reached(n) && !gone.Swap(true) {
							n.daemon.Stop()
							time.AfterFunc(away, n.daemon.Resume)
						}
					})
					n.plane.add("1", image)
					n.until(5*time.Minute, "daemon away "+phase, gone.Load)
					time.Sleep(away)
					n.ends(5*time.Minute, "1", protocol.StatusFailed)
					n.ranOnce(3)
				})
			})
		}
	}
}

func TestAStopThatGoesWrongEndsNothing(t *testing.T) {
	cases := map[string]func(n *node){
		"the daemon dies of it": func(n *node) {
			n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpStop, Times: 1})
			n.until(time.Minute, "asked to stop", func() bool { return n.daemon.Calls(runtimefake.OpStop) > 0 })
			n.daemon.Stop()
			time.Sleep(10 * time.Minute)
			n.daemon.Resume()
		},
		"nobody answers": func(n *node) { n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpStop, Times: 20, Hangs: true}) },
		"the daemon refuses it": func(n *node) {
			n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpStop, Times: 20, Err: runtime.ErrConflict})
		},
	}
	for name, trouble := range cases {
		t.Run(name, func(t *testing.T) {
			running(t, runtimefake.Program{Forever: true}, func(n *node) {
				n.plane.setStatus("1", protocol.StatusStopping)
				trouble(n)
				n.until(time.Hour, "stopped", func() bool {
					stopped := n.plane.status("1") == protocol.StatusStopped
					if stopped && n.state("1") == runtime.StateRunning {
						t.Fatal("reported as stopped while it runs")
					}
					return stopped
				})
				want := ending{protocol.StatusStopped, protocol.ReasonStopped, 143, false}
				if diff := cmp.Diff(want, endingOf(t, n.plane.updates("1", over...))); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestAWaitThatIsCutEndsNothing(t *testing.T) {
	running(t, runtimefake.Program{Runs: 10 * time.Minute, Code: 3}, func(n *node) {
		for range 20 {
			time.Sleep(20 * time.Second)
			n.daemon.CutWaits()
		}
		if n.state("1") != runtime.StateRunning || n.plane.status("1") != protocol.StatusRunning {
			t.Errorf("it is %s and %s", n.state("1"), n.plane.status("1"))
		}
		n.ends(10*time.Minute, "1", protocol.StatusFailed)
		n.ranOnce(3)
	})
}

func TestAContainerThatSomebodyElseRemovedIsLost(t *testing.T) {
	for name, restart := range map[string]bool{"while the agent watches": false, "while no agent runs": true} {
		t.Run(name, func(t *testing.T) {
			running(t, runtimefake.Program{Forever: true}, func(n *node) {
				if restart {
					n.stop()
				}
				n.daemon.Vanish("task-1")
				if restart {
					n.start()
				}
				n.ends(5*time.Minute, "1", protocol.StatusFailed)
				want := ending{protocol.StatusFailed, protocol.ReasonContainerLost, -1, false}
				if diff := cmp.Diff(want, endingOf(t, n.plane.updates("1", over...))); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestARemovalThatFailsIsTriedAgainAndHoldsUpNobody(t *testing.T) {
	onNode(t, func(n *node) {
		n.stop()
		n.workers = 1
		n.start()
		n.daemon.AddImage(image, runtimefake.Program{})
		n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpRemove, Times: 12, Err: runtime.ErrConflict})
		n.plane.add("1", image)
		n.plane.add("2", image)
		n.until(5*time.Minute, "both reported", func() bool {
			return n.plane.status("1") == protocol.StatusCompleted && n.plane.status("2") == protocol.StatusCompleted
		})
		n.ends(10*time.Minute, "1", protocol.StatusCompleted)
		n.ends(10*time.Minute, "2", protocol.StatusCompleted)
		if n := len(n.plane.updates("1", over...)); n != 1 {
			t.Errorf("reported %d times", n)
		}
	})
}

func TestAContainerThatCannotBeRemovedIsNamedAndSoonTriedOnceAnHourOnly(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{})
		n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpRemove, Times: 1 << 20, Err: runtime.ErrConflict})
		n.plane.add("1", image)
		n.until(5*time.Minute, "reported", func() bool { return n.plane.status("1") == protocol.StatusCompleted })
		const givenUp = "task given up; reconciliation takes it from here"
		n.until(5*time.Minute, "given up", func() bool { return n.logged(givenUp) })
		if trouble := n.agent.executor.Trouble(); !strings.Contains(trouble, "task-1") {
			t.Errorf("the trouble is %q", trouble)
		}
		time.Sleep(3 * time.Hour)
		before := n.logs.FilterMessage(givenUp).Len()
		time.Sleep(10 * time.Hour)
		if more := n.logs.FilterMessage(givenUp).Len() - before; more < 8 || more > 10 {
			t.Errorf("given up %d times in ten hours", more)
		}
		if n := len(n.plane.updates("1", over...)); n != 1 {
			t.Errorf("reported %d times", n)
		}
		n.plane.add("2", image)
		n.until(5*time.Minute, "another runs meanwhile", func() bool { return n.plane.status("2") == protocol.StatusCompleted })
		n.daemon.Heal()
		n.ends(2*time.Hour, "1", protocol.StatusCompleted)
		if trouble := n.agent.executor.Trouble(); trouble != "" {
			t.Errorf("the trouble is still %q", trouble)
		}
	})
}

func TestATaskWhoseEarlierContainerCannotBeRemovedSaysSoWhenItIsAssignedAnew(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{})
		n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpRemove, Times: 1 << 20, Err: runtime.ErrConflict})
		n.plane.add("1", image)
		n.until(10*time.Minute, "given up", func() bool { return n.logged("task given up; reconciliation takes it from here") })
		n.plane.set("1", func(t *protocol.Task) { t.Generation, t.Status = 2, protocol.StatusScheduled })
		n.until(10*time.Minute, "the second assignment failed", func() bool { return n.plane.status("1") == protocol.StatusFailed })
		u := n.plane.updates("1", protocol.StatusFailed)
		if len(u) != 1 || u[0].Reason != protocol.ReasonStartFailed || *u[0].Generation != 2 || n.starts("1", "2") != 0 {
			t.Errorf("reported: %+v, after %d starts", u, n.starts("1", "2"))
		}
		n.daemon.Heal()
		n.ends(2*time.Hour, "1", protocol.StatusFailed)
	})
}

func TestEachStateInWhichAContainerIsFoundHasItsAction(t *testing.T) {
	const still = protocol.StatusRunning // nothing is reported while it is so
	cases := map[runtime.State]struct {
		status protocol.TaskStatus
		reason protocol.Reason
	}{
		runtime.StateCreated:    {protocol.StatusCompleted, protocol.ReasonExited}, // started now
		runtime.StateRunning:    {protocol.StatusCompleted, protocol.ReasonExited},
		runtime.StateExited:     {protocol.StatusCompleted, protocol.ReasonExited},
		runtime.StateDead:       {protocol.StatusFailed, protocol.ReasonExitUnknown},
		runtime.StatePaused:     {still, ""},
		runtime.StateRestarting: {still, ""},
		runtime.StateRemoving:   {still, ""},
		runtime.StateUnknown:    {still, ""},
		"future":                {still, ""},
	}
	for state, tc := range cases {
		t.Run(string(state), func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.AddImage(image, runtimefake.Program{Runs: time.Minute})
				n.plane.add("1", image, func(t *protocol.Task) { t.Status = protocol.StatusRunning })
				n.found(state)
				n.start()
				if tc.status == still {
					time.Sleep(20 * time.Minute)
					if n.plane.status("1") != still || !n.agent.executor.Owns("1") {
						t.Errorf("it is %s", n.plane.status("1"))
					}
					if asked, looked := len(n.plane.asks(func(asked) bool { return true })), n.daemon.Calls(runtimefake.OpInspect); asked > 1000 || looked > 200 {
						t.Errorf("%d requests and %d inspections in 20 minutes", asked, looked)
					}
					n.daemon.Vanish("task-1")
					n.ends(2*time.Minute, "1", protocol.StatusFailed)
					return
				}
				n.ends(3*time.Minute, "1", tc.status)
				if u := n.plane.updates("1", over...); len(u) != 1 || u[0].Reason != tc.reason {
					t.Errorf("reported: %+v", u)
				}
				if n.starts("1", "1") > 1 {
					t.Errorf("%d starts", n.starts("1", "1"))
				}
			})
		})
	}
}

// found puts a container of task 1 in the state on the node, as an earlier agent left it.
func (n *node) found(state runtime.State) {
	n.t.Helper()
	n.stop()
	n.plant()
	switch state {
	case runtime.StateCreated:
	case runtime.StateRunning:
		n.daemon.Start("task-1")
	case runtime.StateExited:
		n.daemon.Start("task-1")
		time.Sleep(2 * time.Minute)
	default:
		n.daemon.Start("task-1")
		n.daemon.Force("task-1", state)
	}
}

// plant makes a container of task 1, as it stands at the plane, behind the agent's back.
func (n *node) plant() {
	n.t.Helper()
	blueprint, err := taskcontainer.Builder{LogLimits: runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 2}}.Build(n.plane.get("1"), taskcontainer.Devices{}, zap.NewNop())
	if err != nil {
		n.t.Fatal(err)
	}
	n.daemon.Plant(blueprint.Spec)
}

func TestAnEarlierAssignmentsContainerGivesWayEvenIfTheDaemonGoesAwayMeanwhile(t *testing.T) {
	for name, f := range map[string]runtimefake.Fault{
		"nothing goes wrong":          {Op: runtimefake.OpInspect},
		"it is not looked at":         {Op: runtimefake.OpInspect, Times: 3},
		"it is not removed":           {Op: runtimefake.OpRemove, Times: 3},
		"it is removed, unanswered":   {Op: runtimefake.OpRemove, Times: 1, Applied: true},
		"its successor is not made":   {Op: runtimefake.OpCreate, Times: 3},
		"its successor is unanswered": {Op: runtimefake.OpCreate, Times: 2, Applied: true},
	} {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.AddImage(image, runtimefake.Program{})
				time.Sleep(time.Minute + 30*time.Second) // the next reconciliation is half a minute away
				n.plane.add("1", image)
				n.plant()
				n.plane.set("1", func(t *protocol.Task) { t.Generation = 2 })
				n.daemon.Inject(f)
				n.ends(5*time.Minute, "1", protocol.StatusCompleted)
				if first, second := n.starts("1", "1"), n.starts("1", "2"); first != 0 || second != 1 {
					t.Errorf("%d starts of the first assignment and %d of the second", first, second)
				}
			})
		})
	}
}

func TestAContainerLeftBeforeItsFirstStartIsNotStartedUnasked(t *testing.T) {
	cases := map[string]struct {
		prepare func(n *node)
		gone    bool
	}{
		"while the control plane does not answer": {func(n *node) { n.plane.trouble(trouble{times: -1}) }, false},
		"while it answers with web pages":         {func(n *node) { n.plane.trouble(trouble{times: -1, status: 404, html: true}) }, false},
		"if it has the task as not claimed":       {func(n *node) { n.plane.setStatus("1", protocol.StatusPending) }, false},
		"if it has a status from the future":      {func(n *node) { n.plane.setStatus("1", "future") }, false},
		"if the task was given to another node":   {func(n *node) { n.plane.set("1", func(t *protocol.Task) { t.NodeID = "node-2" }) }, true},
		"if the task was cancelled":               {func(n *node) { n.plane.setStatus("1", protocol.StatusCancelled) }, true},
		"if the task was deleted":                 {func(n *node) { n.plane.remove("1") }, true},
		"if the task is to stop":                  {func(n *node) { n.plane.setStatus("1", protocol.StatusStopping) }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.AddImage(image, runtimefake.Program{Forever: true})
				n.plane.add("1", image, func(t *protocol.Task) { t.Status = protocol.StatusRunning })
				n.found(runtime.StateCreated)
				tc.prepare(n)
				n.start()
				time.Sleep(10 * time.Minute)
				if n.starts("1", "1") != 0 || (n.state("1") == "") != tc.gone {
					t.Errorf("%d starts, the container is %q", n.starts("1", "1"), n.state("1"))
				}
			})
		})
	}
}

func TestContainersThatAreNotThisNodesTasksAreNotTouched(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Forever: true})
		n.stop()
		labelled := func(name string, change func(map[string]string)) {
			spec := plain(name)
			spec.Labels = map[string]string{
				taskcontainer.LabelTaskID: "1", taskcontainer.LabelNodeID: nodeID, taskcontainer.LabelGeneration: "1",
				taskcontainer.LabelSpec: `{"grace":1000000000,"network":"none"}`,
			}
			change(spec.Labels)
			n.daemon.Plant(spec)
			n.daemon.Start(name)
		}
		n.daemon.Plant(plain("web"))
		n.daemon.Start("web")
		labelled("task-1", func(l map[string]string) { l[taskcontainer.LabelNodeID] = "node-2" })
		labelled("task-2", func(map[string]string) {})
		labelled("task-3", func(l map[string]string) { l[taskcontainer.LabelTaskID] = "3"; l[taskcontainer.LabelGeneration] = "x" })
		labelled("task-4", func(l map[string]string) { l[taskcontainer.LabelTaskID] = "4"; delete(l, taskcontainer.LabelSpec) })
		labelled("other-5", func(l map[string]string) { l[taskcontainer.LabelTaskID] = "5" })
		before := n.daemon.Containers()
		n.start()
		time.Sleep(10 * time.Minute)
		if diff := cmp.Diff(before, n.daemon.Containers(), cmpopts.EquateComparable(netip.Addr{})); diff != "" {
			t.Error(diff)
		}
		if asks := n.plane.asks(func(a asked) bool { return a.Method == http.MethodPut }); len(asks) != 0 {
			t.Errorf("reported: %+v", asks)
		}
	})
}
