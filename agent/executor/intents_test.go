package executor_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// running is a test on a node whose task 1 runs the program.
func running(t *testing.T, program runtimefake.Program, test func(n *node)) {
	t.Helper()
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, program)
		n.plane.add("1", image)
		n.runs("1")
		test(n)
	})
}

func TestARunningTaskIsStoppedOnRequest(t *testing.T) {
	cases := map[string]struct {
		program runtimefake.Program
		code    int
	}{
		"by SIGTERM":                          {runtimefake.Program{Forever: true}, 143},
		"by SIGKILL if it does not heed that": {runtimefake.Program{Forever: true, IgnoresTerm: true}, 137},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			running(t, tc.program, func(n *node) {
				n.plane.setStatus("1", protocol.StatusStopping)
				n.ends(2*time.Minute, "1", protocol.StatusStopped)
				want := ending{protocol.StatusStopped, protocol.ReasonStopped, tc.code, false}
				if diff := cmp.Diff(want, endingOf(t, n.plane.updates("1", over...))); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestATaskIsStoppedBeforeItStarted(t *testing.T) {
	cases := map[string]func(n *node){
		"while its image is pulled": func(n *node) {
			n.daemon.Publish(image, runtimefake.Published{Takes: 4 * time.Minute})
		},
		"while its container cannot be made": func(n *node) {
			n.daemon.AddImage(image, runtimefake.Program{Forever: true})
			n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpCreate, Times: 1000})
		},
		"while its container cannot be started": func(n *node) {
			n.daemon.AddImage(image, runtimefake.Program{Forever: true})
			n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpStart, Times: 1000})
		},
		"while nobody answers the start": func(n *node) {
			n.daemon.AddImage(image, runtimefake.Program{Forever: true})
			n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpStart, Times: 1000, Hangs: true})
		},
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				prepare(n)
				n.plane.add("1", image)
				time.Sleep(time.Minute)
				n.plane.setStatus("1", protocol.StatusStopping)
				begun := time.Now()
				n.ends(time.Minute, "1", protocol.StatusStopped)
				if took := time.Since(begun); took > 15*time.Second {
					t.Errorf("it took %v", took)
				}
				want := ending{protocol.StatusStopped, protocol.ReasonStopped, -1, false}
				if diff := cmp.Diff(want, endingOf(t, n.plane.updates("1", over...))); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestAStopThatMeetsAnUnansweredStartIsReportedOnceTheProgramIsDead(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Forever: true})
		n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpStart, Times: 1, Applied: true})
		n.plane.add("1", image)
		n.runs("1")
		n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpInspect, Times: 5}) // for half a minute
		n.plane.setStatus("1", protocol.StatusStopping)
		n.until(2*time.Minute, "stopped", func() bool {
			stopped := n.plane.status("1") == protocol.StatusStopped
			if stopped && n.state("1") == runtime.StateRunning {
				t.Fatal("reported as stopped while it runs")
			}
			return stopped
		})
		n.ends(time.Minute, "1", protocol.StatusStopped)
	})
}

// The facts by which a container goes without a report.
func TestATaskThatIsOverForThisNodeLeavesNothingAndReportsNothing(t *testing.T) {
	facts := map[string]struct {
		tell   func(n *node)
		status protocol.TaskStatus
	}{
		"it was cancelled":                    {func(n *node) { n.plane.setStatus("1", protocol.StatusCancelled) }, protocol.StatusCancelled},
		"it was deleted":                      {func(n *node) { n.plane.remove("1") }, ""},
		"it was given to another node":        {func(n *node) { n.plane.set("1", func(t *protocol.Task) { t.NodeID = "node-2" }) }, protocol.StatusRunning},
		"it was given to this node once more": {func(n *node) { n.plane.set("1", func(t *protocol.Task) { t.Generation = 2 }) }, protocol.StatusRunning},
		"it was given to another once more":   {func(n *node) { n.plane.set("1", func(t *protocol.Task) { t.Generation, t.NodeID = 2, "node-2" }) }, protocol.StatusRunning},
		"it was ended by somebody else":       {func(n *node) { n.plane.setStatus("1", protocol.StatusFailed) }, protocol.StatusFailed},
	}
	moments := map[string]struct {
		prepare func(n *node)
		busy    func(n *node) bool
	}{
		"while it runs": {
			func(n *node) { n.daemon.AddImage(image, runtimefake.Program{Forever: true}) },
			func(n *node) bool { return n.state("1") == runtime.StateRunning },
		},
		"while its image is pulled": {
			func(n *node) { n.daemon.Publish(image, runtimefake.Published{Takes: 4 * time.Minute}) },
			func(n *node) bool { return n.daemon.Pulls(image) == 1 },
		},
		"while its result is owed": {
			func(n *node) {
				n.daemon.AddImage(image, runtimefake.Program{})
				n.plane.trouble(trouble{which: reports, times: -1, status: 503})
			},
			func(n *node) bool { return n.logged("result not delivered") },
		},
	}
	for fact, f := range facts {
		for moment, m := range moments {
			t.Run(fact+" "+moment, func(t *testing.T) {
				onNode(t, func(n *node) {
					m.prepare(n)
					n.plane.add("1", image)
					n.until(3*time.Minute, moment, func() bool { return m.busy(n) })
					f.tell(n)
					n.ends(2*time.Minute, "1", f.status)
					if updates := n.plane.updates("1", over...); len(updates) != 0 {
						t.Errorf("reported: %+v", updates)
					}
				})
			})
		}
	}
}

func TestATaskRunsAnewWhenItIsAssignedAnew(t *testing.T) {
	running(t, runtimefake.Program{Runs: 5 * time.Minute}, func(n *node) {
		n.plane.set("1", func(t *protocol.Task) { t.Generation, t.Status = 2, protocol.StatusScheduled })
		n.ends(10*time.Minute, "1", protocol.StatusCompleted)
		if first, second := n.starts("1", "1"), n.starts("1", "2"); first != 1 || second != 1 {
			t.Errorf("%d starts of the first assignment and %d of the second", first, second)
		}
		if u := n.plane.updates("1", over...); len(u) != 1 || *u[0].Generation != 2 {
			t.Errorf("reported: %+v", u)
		}
	})
}

func TestOnlyThreeAnswersInARowThatATaskDoesNotExistMeanThatItWasDeleted(t *testing.T) {
	missing := func(n *node, times int) {
		n.plane.trouble(trouble{which: reads("1"), times: times, status: http.StatusNotFound})
	}
	cases := map[string]struct {
		prepare func(n *node)
		deleted bool
	}{
		"three in a row":                      {func(n *node) { missing(n, 3) }, true},
		"two":                                 {func(n *node) { missing(n, 2) }, false},
		"two and two more after it was found": {func(n *node) { missing(n, 2); time.Sleep(30 * time.Second); missing(n, 2) }, false},
		"two, an error and two more": {func(n *node) {
			missing(n, 2)
			n.plane.trouble(trouble{which: reads("1"), times: 1, status: 500})
			missing(n, 2)
		}, false},
		"any number of web pages with status 404": {func(n *node) { n.plane.trouble(trouble{which: reads("1"), times: 20, status: 404, html: true}) }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			running(t, runtimefake.Program{Forever: true}, func(n *node) {
				// The list does not have it, so that it is asked for by itself.
				n.plane.set("1", func(t *protocol.Task) { t.NodeID = "" })
				tc.prepare(n)
				time.Sleep(5 * time.Minute)
				if gone := n.state("1") == ""; gone != tc.deleted {
					t.Errorf("container gone: %v, want %v", gone, tc.deleted)
				}
			})
		})
	}
}

func TestAnAnswerThatSaysNothingChangesNothing(t *testing.T) {
	cases := map[string]func(t *protocol.Task){
		"an empty node":                    func(t *protocol.Task) { t.NodeID = "" },
		"a status from the future":         func(t *protocol.Task) { t.Status = "hibernating" },
		"a status before the claim":        func(t *protocol.Task) { t.Status = protocol.StatusPending },
		"an older assignment of this task": func(t *protocol.Task) { t.Generation = 0 },
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			running(t, runtimefake.Program{Forever: true}, func(n *node) {
				n.plane.set("1", change)
				time.Sleep(10 * time.Minute)
				if n.state("1") != runtime.StateRunning || len(n.plane.updates("1", over...)) != 0 {
					t.Errorf("it is %q, reported %v", n.state("1"), n.plane.updates("1", over...))
				}
			})
		})
	}
}

func TestAProgramThatCannotBeKilledKeepsItsPlaceAndBlocksNobody(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Unkillable: true})
		n.daemon.AddImage("registry.example/other:v1", runtimefake.Program{})
		n.plane.add("1", image)
		n.runs("1")
		n.plane.setStatus("1", protocol.StatusStopping)
		n.plane.add("2", "registry.example/other:v1")
		n.ends(time.Minute, "2", protocol.StatusCompleted)
		n.until(5*time.Minute, "reported in the heartbeat", func() bool {
			h := n.agent.executor.Health()
			return len(h) == 1 && h[0].TaskID == "1" && h[0].State == protocol.HealthUnhealthy && strings.HasPrefix(h[0].Message, string(protocol.ReasonStopTimeout))
		})
		time.Sleep(time.Hour)
		if n.plane.status("1") != protocol.StatusStopping || !n.agent.executor.Owns("1") {
			t.Errorf("it is %s", n.plane.status("1"))
		}
	})
}
