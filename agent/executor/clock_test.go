package executor_test

import (
	"testing"
	"time"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// limited is a task with a time limit that does not end by itself.
func (n *node) limited(limit time.Duration) {
	n.t.Helper()
	n.daemon.AddImage(image, runtimefake.Program{Forever: true})
	n.plane.add("1", image, func(task *protocol.Task) { task.TimeoutSeconds = int64(limit / time.Second) })
	n.runs("1")
}

// endsOfItsLimit lets time pass until the task has failed of its time limit, once, and
// returns how long that took.
func (n *node) endsOfItsLimit() time.Duration {
	n.t.Helper()
	begun := time.Now()
	n.ends(3*time.Hour, "1", protocol.StatusFailed)
	took := time.Since(begun)
	ends := n.plane.updates("1", over...)
	if got := endingOf(n.t, ends); len(ends) != 1 || got.Reason != protocol.ReasonTimeout {
		n.t.Errorf("reported %+v", ends)
	}
	return took
}

// The agent's clock is set forward, so that starts lie long ago, or back, so that they are
// to come.
var clocksOfStarts = map[string]time.Duration{"forward": -2 * time.Hour, "back": 2 * time.Hour}

func TestATaskHasItsWholeTimeThoughTheClockIsSetWhileItStarts(t *testing.T) {
	for name, ahead := range clocksOfStarts {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.SetClock(ahead)
				n.limited(time.Minute)
				if took := n.endsOfItsLimit(); took < 59*time.Second || took > 70*time.Second {
					t.Errorf("it ran for %v", took)
				}
			})
		})
	}
}

func TestATaskHasItsTimeHoweverOftenItsAgentAndTheClockAreSet(t *testing.T) {
	for name, ahead := range clocksOfStarts {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.SetClock(ahead)
				n.limited(time.Minute)
				for range 5 {
					time.Sleep(10 * time.Second)
					n.kill()
					n.start()
				}
				if took := n.endsOfItsLimit(); took < 9*time.Second || took > 20*time.Second {
					t.Errorf("it ran on for %v", took)
				}
			})
		})
	}
}

// Without the clock that counts from boot there is only the one on the wall to go by.
func TestALaterAgentGivesATaskNoMoreThanItsWholeTimeHoweverTheClockWasSet(t *testing.T) {
	atMost := map[string]time.Duration{"forward": 10 * time.Second, "back": 70 * time.Second}
	for name, ahead := range clocksOfStarts {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.boot = ""
				n.daemon.SetClock(ahead)
				n.limited(time.Minute)
				time.Sleep(50 * time.Second)
				n.restart()
				if took := n.endsOfItsLimit(); took > atMost[name] {
					t.Errorf("it ran on for %v", took)
				}
			})
		})
	}
}

func TestATaskHasItsTimeWhenItsAgentDiesBeforeItSeesTheRun(t *testing.T) {
	for name, ahead := range clocksOfStarts {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.SetClock(ahead)
				n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpStart, Times: 1, Applied: true})
				n.limited(time.Minute)
				n.kill()
				n.start()
				if took := n.endsOfItsLimit(); took < 59*time.Second || took > 70*time.Second {
					t.Errorf("it ran for %v", took)
				}
			})
		})
	}
}

func TestAnEndIsNotReportedAsEarlierThanItsStart(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Runs: time.Minute})
		n.daemon.SetClock(2 * time.Hour)
		n.plane.add("1", image)
		n.runs("1")
		n.daemon.SetClock(0)
		n.ends(2*time.Minute, "1", protocol.StatusCompleted)
		u := n.plane.updates("1", over...)[0]
		if u.StartedAt == nil || u.FinishedAt == nil || u.FinishedAt.Before(*u.StartedAt) {
			t.Errorf("it ran from %v to %v", u.StartedAt, u.FinishedAt)
		}
	})
}

func TestAServiceHasItsInitialDelayHoweverItsAgentAndTheClockAreSet(t *testing.T) {
	for name, ahead := range clocksOfStarts {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.SetClock(ahead)
				n.daemon.AddImage(image, runtimefake.Program{Forever: true})
				n.plane.add("1", image, func(task *protocol.Task) {
					task.Network = protocol.NetworkHost // where nothing listens on the port
					task.HealthCheck = &protocol.HealthCheck{
						Type: protocol.HealthTCP, Port: 1, InitialDelaySeconds: 600, IntervalSeconds: 1, FailureThreshold: 1, StopWhenUnhealthy: true,
					}
				})
				n.runs("1")
				begun := time.Now()
				for range 5 {
					time.Sleep(time.Minute)
					n.restart()
				}
				n.ends(time.Hour, "1", protocol.StatusFailed)
				if took := time.Since(begun); took < 599*time.Second || took > 620*time.Second {
					t.Errorf("it was ended after %v", took)
				}
			})
		})
	}
}
