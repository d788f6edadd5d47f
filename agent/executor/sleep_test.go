package executor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// asleep is a test on a node whose task 1 ran and fell asleep.
func asleep(t *testing.T, program runtimefake.Program, change func(*protocol.Task), test func(n *node)) {
	t.Helper()
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, program)
		n.plane.add("1", image, change)
		n.runs("1")
		n.plane.setStatus("1", protocol.StatusSleeping)
		n.fallsAsleep()
		test(n)
	})
}

func (n *node) fallsAsleep() {
	n.t.Helper()
	n.until(2*time.Minute, "asleep", func() bool {
		return n.plane.status("1") == protocol.StatusAsleep && n.state("1") == runtime.StateExited
	})
}

func unchanged(*protocol.Task) {}

func TestATaskSleepsAndWakesInItsContainer(t *testing.T) {
	asleep(t, runtimefake.Program{Runs: time.Hour}, unchanged, func(n *node) {
		container := n.daemon.Containers()[0].ID
		time.Sleep(3 * time.Hour)
		n.plane.setStatus("1", protocol.StatusWaking)
		n.until(time.Minute, "awake", func() bool {
			return n.plane.status("1") == protocol.StatusRunning && n.state("1") == runtime.StateRunning
		})
		if got := n.daemon.Containers()[0].ID; got != container {
			t.Errorf("woke in container %s, fell asleep in %s", got, container)
		}
		n.ends(2*time.Hour, "1", protocol.StatusCompleted)
		if n.starts("1", "1") != 2 || n.daemon.Made() != 1 {
			t.Errorf("%d starts of %d containers", n.starts("1", "1"), n.daemon.Made())
		}
	})
}

func TestWhatIsToldWhileATaskIsAsleepHoldsAcrossRestarts(t *testing.T) {
	cases := map[string]struct {
		program runtimefake.Program
		tell    func(n *node)
		want    ending
	}{
		"to wake, and it completes": {
			runtimefake.Program{Runs: time.Hour},
			func(n *node) { n.plane.setStatus("1", protocol.StatusWaking) },
			ending{protocol.StatusCompleted, protocol.ReasonExited, 0, false},
		},
		"to stop": {
			runtimefake.Program{Forever: true},
			func(n *node) { n.plane.setStatus("1", protocol.StatusStopping) },
			ending{protocol.StatusStopped, protocol.ReasonStopped, 143, false},
		},
		"to wake a container that is gone": {
			runtimefake.Program{Forever: true},
			func(n *node) { n.daemon.Vanish("task-1"); n.plane.setStatus("1", protocol.StatusWaking) },
			ending{protocol.StatusFailed, protocol.ReasonContainerLost, -1, false},
		},
	}
	for name, tc := range cases {
		for when, restart := range map[string]func(n *node){
			"the agent that put it to sleep": func(n *node) { tc.tell(n) },
			"a later agent":                  func(n *node) { n.restart(); time.Sleep(time.Minute); tc.tell(n) },
			"nobody until an agent started":  func(n *node) { n.stop(); tc.tell(n); n.start() },
		} {
			t.Run(name+", told to "+when, func(t *testing.T) {
				asleep(t, tc.program, unchanged, func(n *node) {
					restart(n)
					n.ends(2*time.Hour, "1", tc.want.Status)
					if diff := cmp.Diff(tc.want, endingOf(t, n.plane.updates("1", over...))); diff != "" {
						t.Error(diff)
					}
				})
			})
		}
	}
}

func TestASleepIsNotLostWithARequest(t *testing.T) {
	cases := map[string]trouble{
		"the sleep was not answered":     {which: sets(protocol.StatusAsleep), times: 1, applied: true},
		"the sleep did not arrive":       {which: sets(protocol.StatusAsleep), times: 1},
		"the sleep was refused for long": {which: sets(protocol.StatusAsleep), times: 20, status: 500},
	}
	for name, tr := range cases {
		t.Run(name, func(t *testing.T) {
			running(t, runtimefake.Program{Forever: true}, func(n *node) {
				n.plane.trouble(tr)
				n.plane.setStatus("1", protocol.StatusSleeping)
				n.until(20*time.Minute, "asleep", func() bool { return n.plane.status("1") == protocol.StatusAsleep })
				time.Sleep(10 * time.Minute)
				if n.state("1") != runtime.StateExited || n.plane.status("1") != protocol.StatusAsleep {
					t.Errorf("it is %s and %s", n.state("1"), n.plane.status("1"))
				}
				n.plane.setStatus("1", protocol.StatusWaking)
				n.until(2*time.Minute, "awake", func() bool { return n.plane.status("1") == protocol.StatusRunning })
				if n.starts("1", "1") != 2 {
					t.Errorf("%d starts", n.starts("1", "1"))
				}
			})
		})
	}
}

func TestATaskToldToWakeBeforeItsSleepWasAcknowledgedWakes(t *testing.T) {
	running(t, runtimefake.Program{Forever: true}, func(n *node) {
		n.plane.trouble(trouble{which: sets(protocol.StatusAsleep), times: 1, applied: true})
		n.plane.setStatus("1", protocol.StatusSleeping)
		n.until(time.Minute, "asleep", func() bool { return n.plane.status("1") == protocol.StatusAsleep })
		n.plane.setStatus("1", protocol.StatusWaking)
		n.until(2*time.Minute, "awake", func() bool {
			return n.plane.status("1") == protocol.StatusRunning && n.state("1") == runtime.StateRunning
		})
		if got := n.plane.updates("1", over...); len(got) != 0 {
			t.Errorf("reported: %+v", got)
		}
	})
}

func TestAWakeThatIsNotAcknowledgedIsToldAgainAndNotRepeated(t *testing.T) {
	wakes := func(a asked) bool { return a.Update.FromStatus == protocol.StatusWaking }
	for name, tr := range map[string]trouble{
		"not answered":        {which: wakes, times: 1, applied: true},
		"did not arrive":      {which: wakes, times: 5},
		"answered with a 429": {which: wakes, times: 5, status: 429},
	} {
		t.Run(name, func(t *testing.T) {
			asleep(t, runtimefake.Program{Forever: true}, unchanged, func(n *node) {
				n.plane.trouble(tr)
				n.plane.setStatus("1", protocol.StatusWaking)
				n.until(5*time.Minute, "awake", func() bool { return n.plane.status("1") == protocol.StatusRunning })
				time.Sleep(5 * time.Minute)
				if n.starts("1", "1") != 2 || n.state("1") != runtime.StateRunning {
					t.Errorf("%d starts, it is %s", n.starts("1", "1"), n.state("1"))
				}
			})
		})
	}
}

func TestAWokenTaskHasItsWholeTimeAgain(t *testing.T) {
	limited := func(task *protocol.Task) { task.TimeoutSeconds = 600 }
	asleep(t, runtimefake.Program{Runs: 9 * time.Minute}, limited, func(n *node) {
		time.Sleep(time.Hour)
		n.plane.setStatus("1", protocol.StatusWaking)
		n.ends(20*time.Minute, "1", protocol.StatusCompleted)
	})
}

func TestATimeLimitReachedWhileFallingAsleepIsNotTheNextRuns(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Forever: true})
		n.plane.add("1", image, func(task *protocol.Task) { task.TimeoutSeconds = 60 })
		n.runs("1")
		n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpStop, Times: 3, Err: runtime.ErrConflict})
		n.plane.setStatus("1", protocol.StatusSleeping)
		n.fallsAsleep()
		n.plane.setStatus("1", protocol.StatusWaking)
		n.runs("1")
		time.Sleep(50 * time.Second)
		if n.state("1") != runtime.StateRunning || len(n.plane.asks(reports)) != 0 {
			t.Errorf("it is %s, reported %+v", n.state("1"), n.plane.asks(reports))
		}
	})
}

func TestAContainerOfWhichNobodyKnowsWhenItStartedIsNotOverItsTime(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Forever: true})
		n.plane.add("1", image, func(task *protocol.Task) { task.Status, task.TimeoutSeconds = protocol.StatusRunning, 60 })
		n.found(runtime.StateCreated)
		n.daemon.Force("task-1", runtime.StateUnknown)
		n.start()
		time.Sleep(10 * time.Minute)
		if stops := n.daemon.Calls(runtimefake.OpStop); stops != 0 || n.plane.status("1") != protocol.StatusRunning {
			t.Errorf("stopped %d times, it is %s", stops, n.plane.status("1"))
		}
	})
}

func TestATaskIsOnItsTimeLimitWhateverHappensToAgents(t *testing.T) {
	cases := map[string]func(n *node){
		"with one agent":                func(*node) {},
		"with agents one after another": func(n *node) { time.Sleep(20 * time.Second); n.restart() },
		"with none when it is reached":  func(n *node) { n.stop(); time.Sleep(10 * time.Minute); n.start() },
		"with one that dies of it": func(n *node) {
			n.until(2*time.Minute, "being stopped", func() bool { return n.logged("time limit") })
			n.kill()
			n.start()
		},
	}
	for name, meanwhile := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.AddImage(image, runtimefake.Program{Forever: true, IgnoresTerm: true})
				n.plane.add("1", image, func(task *protocol.Task) { task.TimeoutSeconds = 60 })
				n.runs("1")
				meanwhile(n)
				n.ends(5*time.Minute, "1", protocol.StatusFailed)
				want := ending{protocol.StatusFailed, protocol.ReasonTimeout, 124, false}
				if diff := cmp.Diff(want, endingOf(t, n.plane.updates("1", over...))); diff != "" {
					t.Error(diff)
				}
				if n.starts("1", "1") != 1 {
					t.Errorf("%d starts", n.starts("1", "1"))
				}
			})
		})
	}
}

func TestWhatIsKnownOfAServicesHealthIsOfTheRunNow(t *testing.T) {
	checked := func(task *protocol.Task) {
		task.Network = protocol.NetworkNone
		task.HealthCheck = &protocol.HealthCheck{Type: protocol.HealthTCP, Port: 80, InitialDelaySeconds: 200, IntervalSeconds: 100}
	}
	asleep(t, runtimefake.Program{Forever: true}, checked, func(n *node) {
		if h := n.agent.executor.Health(); len(h) != 0 {
			t.Errorf("asleep, and its health is %+v", h)
		}
		n.plane.setStatus("1", protocol.StatusWaking)
		n.until(time.Minute, "health known", func() bool {
			h := n.agent.executor.Health()
			return len(h) == 1 && h[0].State == protocol.HealthUnknown && h[0].TaskID == "1"
		})
	})
}

func TestHintsDoNotCutAProbesInitialDelayShort(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Forever: true})
		n.plane.add("1", image, func(task *protocol.Task) {
			task.Network = protocol.NetworkHost // where nothing listens on the port
			task.HealthCheck = &protocol.HealthCheck{Type: protocol.HealthTCP, Port: 1, InitialDelaySeconds: 300, IntervalSeconds: 10, TimeoutSeconds: 1, FailureThreshold: 1}
		})
		n.runs("1")
		for range 28 { // a reconciliation, and a kick every ten seconds
			time.Sleep(10 * time.Second)
			n.agent.executor.Retry()
			if h := n.agent.executor.Health(); len(h) != 1 || h[0].State != protocol.HealthStarting {
				t.Fatalf("health %+v", h)
			}
		}
		n.until(2*time.Minute, "unhealthy", func() bool {
			h := n.agent.executor.Health()
			return len(h) == 1 && h[0].State == protocol.HealthUnhealthy
		})
	})
}

func TestAProbesInitialDelayCountsFromTheStartOfTheServiceOverRestarts(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Forever: true})
		n.plane.add("1", image, func(task *protocol.Task) {
			task.Network = protocol.NetworkHost // where nothing listens on the port
			task.HealthCheck = &protocol.HealthCheck{Type: protocol.HealthTCP, Port: 1, InitialDelaySeconds: 600, FailureThreshold: 1}
		})
		n.runs("1")
		begun := time.Now()
		for range 3 {
			time.Sleep(3 * time.Minute)
			n.restart()
		}
		n.until(5*time.Minute, "unhealthy", func() bool {
			h := n.agent.executor.Health()
			return len(h) == 1 && h[0].State == protocol.HealthUnhealthy
		})
		if took := time.Since(begun); took < 9*time.Minute || took > 11*time.Minute {
			t.Errorf("first asked %v after the start", took)
		}
	})
}

func TestAnUnhealthyTaskIsEndedOnlyIfItWantsToBe(t *testing.T) {
	for _, wants := range []bool{true, false} {
		onNode(t, func(n *node) {
			n.daemon.AddImage(image, runtimefake.Program{Forever: true})
			n.plane.add("1", image, func(task *protocol.Task) {
				task.Network = protocol.NetworkHost // where nothing listens on the port
				task.HealthCheck = &protocol.HealthCheck{Type: protocol.HealthTCP, Port: 1, FailureThreshold: 3, StopWhenUnhealthy: wants}
			})
			n.runs("1")
			time.Sleep(15 * time.Second) // two probes
			n.restart()
			if wants {
				n.ends(5*time.Minute, "1", protocol.StatusFailed)
				u := n.plane.updates("1", protocol.StatusFailed)[0]
				if u.Reason != protocol.ReasonUnhealthy || !strings.Contains(u.ErrorMessage, "3 failed probes") || u.ExitCode == nil || *u.ExitCode == 0 {
					t.Errorf("reported %+v", u)
				}
				return
			}
			time.Sleep(time.Hour)
			if h := n.agent.executor.Health(); len(h) != 1 || h[0].State != protocol.HealthUnhealthy || n.state("1") != runtime.StateRunning {
				t.Errorf("the container is %s, its health %+v", n.state("1"), h)
			}
			if status := n.plane.status("1"); status != protocol.StatusRunning {
				t.Errorf("the task is %s", status)
			}
		})
	}
}

func TestATaskThatCannotBeStoppedIsNotIllOfThat(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Unkillable: true})
		n.plane.add("1", image, func(task *protocol.Task) {
			task.Network = protocol.NetworkHost
			task.HealthCheck = &protocol.HealthCheck{Type: protocol.HealthTCP, Port: 1, InitialDelaySeconds: 24 * 3600, StopWhenUnhealthy: true}
		})
		n.runs("1")
		n.plane.setStatus("1", protocol.StatusStopping)
		n.until(5*time.Minute, "told to be unhealthy, as it does not stop", func() bool {
			h := n.agent.executor.Health()
			return len(h) == 1 && h[0].State == protocol.HealthUnhealthy
		})
		n.plane.setStatus("1", protocol.StatusRunning) // and so it may go on
		n.until(5*time.Minute, "watched again", func() bool {
			h := n.agent.executor.Health()
			return len(h) == 1 && h[0].State == protocol.HealthStarting
		})
		if n.logged("for which it wants to be ended") {
			t.Error("it was to be ended for that")
		}
	})
}

// running counts the containers that run.
func (n *node) running() int {
	count := 0
	for _, c := range n.daemon.Containers() {
		if c.State == runtime.StateRunning {
			count++
		}
	}
	return count
}

func TestAWakeWaitsForASlotAndComesBeforeAClaim(t *testing.T) {
	onNode(t, func(n *node) {
		n.workers = 1
		n.restart()
		n.daemon.AddImage(image, runtimefake.Program{Runs: 10 * time.Minute})
		n.plane.add("1", image)
		n.runs("1")
		n.plane.setStatus("1", protocol.StatusSleeping)
		n.fallsAsleep()
		n.plane.add("2", image)
		n.runs("2")
		n.plane.setStatus("1", protocol.StatusWaking)
		n.plane.add("3", image)
		n.until(time.Minute, "it waits", func() bool { return n.logged("waiting to wake") })
		n.restart() // the next agent has it wait, too
		time.Sleep(2 * time.Minute)
		if n.state("1") != runtime.StateExited || n.plane.status("1") != protocol.StatusWaking {
			t.Errorf("beside another task: the container is %s, the task %s", n.state("1"), n.plane.status("1"))
		}
		n.ends(10*time.Minute, "2", protocol.StatusCompleted)
		n.until(time.Minute, "awake", func() bool { return n.plane.status("1") == protocol.StatusRunning })
		if got := n.plane.status("3"); got != protocol.StatusScheduled {
			t.Errorf("the new task is %s", got)
		}
		n.ends(11*time.Minute, "1", protocol.StatusCompleted)
		n.ends(11*time.Minute, "3", protocol.StatusCompleted)
	})
}

func TestTasksThatAreWokenAtOnceRunWithinTheBound(t *testing.T) {
	onNode(t, func(n *node) {
		n.workers = 2
		n.restart()
		n.daemon.AddImage(image, runtimefake.Program{Runs: 10 * time.Minute})
		ids := []string{"a", "b", "c", "d", "e"}
		for _, id := range ids {
			n.plane.add(id, image)
			n.runs(id)
			n.plane.setStatus(id, protocol.StatusSleeping)
			n.until(2*time.Minute, id+" asleep", func() bool { return n.plane.status(id) == protocol.StatusAsleep })
		}
		for _, id := range ids {
			n.plane.setStatus(id, protocol.StatusWaking)
		}
		n.until(time.Hour, "all over", func() bool {
			if got := n.running(); got > 2 {
				t.Fatalf("%d run at once", got)
			}
			for _, id := range ids {
				if n.plane.status(id) != protocol.StatusCompleted {
					return false
				}
			}
			return true
		})
		for _, id := range ids {
			n.ends(time.Minute, id, protocol.StatusCompleted)
		}
	})
}

func TestATaskThatWaitsToWakeCanBeStopped(t *testing.T) {
	onNode(t, func(n *node) {
		n.workers = 1
		n.restart()
		n.daemon.AddImage(image, runtimefake.Program{Forever: true})
		n.plane.add("1", image)
		n.runs("1")
		n.plane.setStatus("1", protocol.StatusSleeping)
		n.fallsAsleep()
		n.plane.add("2", image)
		n.runs("2")
		n.plane.setStatus("1", protocol.StatusWaking)
		n.until(time.Minute, "it waits", func() bool { return n.logged("waiting to wake") })
		n.plane.setStatus("1", protocol.StatusStopping)
		n.ends(2*time.Minute, "1", protocol.StatusStopped)
	})
}
