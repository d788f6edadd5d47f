package executor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/heteroflow/node-agent/agent/lease"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// shelf is a node's cards: whatever a task asks for by uuid is there.
type shelf struct {
	mu       sync.Mutex
	mismatch error          // what each look at a container finds
	unready  error          // why no card can be shared; nil: it can
	probed   []runtime.Info // of the runtimes it was asked for
	verified []taskcontainer.Devices
}

var errNoCard = errors.New("no such card; spec file heteroflow-nvidia.json")

func (s *shelf) Resolve(_ context.Context, task protocol.Task, info runtime.Info) (taskcontainer.Devices, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probed = append(s.probed, info)
	devices := taskcontainer.Devices{Env: []string{"SEEN=none"}}
	for _, d := range task.Devices {
		if d.UUID == "" {
			return devices, &taskcontainer.RefusedError{Reason: protocol.ReasonGPUUnavailable, Err: errNoCard}
		}
		devices.Holds = append(devices.Holds, lease.Hold{Card: d.UUID})
	}
	for _, slice := range task.Slices {
		if slice.Kind == protocol.SliceNVIDIAMPS {
			devices.HostShm = true
			devices.Holds = append(devices.Holds, lease.Hold{Card: "A", Slice: "mps", Shared: true})
			continue
		}
		devices.Holds = append(devices.Holds, lease.Hold{Card: "A", Slice: slice.UUID})
	}
	return devices, nil
}

func (s *shelf) Ready(_ context.Context, holds []lease.Hold) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unready == nil || !slices.ContainsFunc(holds, func(h lease.Hold) bool { return h.Shared }) {
		return nil
	}
	return &taskcontainer.RefusedError{Reason: protocol.ReasonGPUUnavailable, Err: s.unready}
}

func (s *shelf) setUnready(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unready = err
}

func (s *shelf) Verify(_ int, devices taskcontainer.Devices) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verified = append(s.verified, devices)
	return s.mismatch
}

// card makes a task ask for a card.
func card(uuid string) func(*protocol.Task) {
	return func(t *protocol.Task) { t.Devices = []protocol.TaskDevice{{Vendor: protocol.DeviceNVIDIA, UUID: uuid}} }
}

func slice(uuid string) func(*protocol.Task) {
	return func(t *protocol.Task) { t.Slices = []protocol.TaskSlice{{Kind: protocol.SliceNVIDIAMIG, UUID: uuid}} }
}

// withCards is a test on a node with cards whose image runs the program.
func withCards(t *testing.T, program runtimefake.Program, test func(n *node)) {
	t.Helper()
	onNode(t, func(n *node) {
		n.stop()
		n.devices = &shelf{}
		n.start()
		n.daemon.AddImage(image, program)
		test(n)
	})
}

// refused lets time pass until the task has failed for the reason, without a start.
func (n *node) refused(id string, reason protocol.Reason, says ...string) {
	n.t.Helper()
	n.ends(2*time.Minute, id, protocol.StatusFailed)
	u := n.plane.updates(id, protocol.StatusFailed)[0]
	if u.Reason != reason {
		n.t.Errorf("task %s: reason %q, want %q: %s", id, u.Reason, reason, u.ErrorMessage)
	}
	for _, words := range says {
		if !strings.Contains(u.ErrorMessage, words) {
			n.t.Errorf("task %s: %q does not say %q", id, u.ErrorMessage, words)
		}
	}
	if n.starts(id, "1") != 0 {
		n.t.Errorf("task %s was started", id)
	}
}

func TestOneCardIsForOneTask(t *testing.T) {
	withCards(t, runtimefake.Program{Runs: 10 * time.Minute}, func(n *node) {
		n.plane.add("1", image, card("A"))
		n.runs("1")
		n.plane.add("2", image, card("A"))
		n.refused("2", protocol.ReasonGPUConflict, "A is held by task 1, generation 1")
		n.plane.add("3", image, card("B"))
		n.runs("3")
		n.ends(15*time.Minute, "1", protocol.StatusCompleted)
		n.plane.add("4", image, card("A"))
		n.runs("4")
	})
}

func TestPartsOfACardAreForSeveralTasks(t *testing.T) {
	withCards(t, runtimefake.Program{Forever: true}, func(n *node) {
		n.plane.add("1", image, slice("MIG-1"))
		n.plane.add("2", image, slice("MIG-2"))
		n.runs("1")
		n.runs("2")
		n.plane.add("3", image, slice("MIG-1"))
		n.refused("3", protocol.ReasonGPUConflict, "A slice MIG-1 is held by task 1")
		n.plane.add("4", image, card("A"))
		n.refused("4", protocol.ReasonGPUConflict)
	})
}

func share(t *protocol.Task) {
	t.Slices = []protocol.TaskSlice{{Kind: protocol.SliceNVIDIAMPS, Index: new(0), ThreadPercentage: new(50)}}
}

func TestACardThatIsSharedOutIsForAllWhoShareIt(t *testing.T) {
	withCards(t, runtimefake.Program{Forever: true}, func(n *node) {
		n.plane.add("1", image, share)
		n.plane.add("2", image, share)
		n.runs("1")
		n.runs("2")
		n.plane.add("3", image, card("A"))
		n.refused("3", protocol.ReasonGPUConflict, "A is held by task 1", "A slice mps")
		n.restart()
		n.plane.add("4", image, card("A"))
		n.refused("4", protocol.ReasonGPUConflict)
		n.plane.add("5", image, share)
		n.runs("5")
	})
}

func TestACardIsSharedOnlyWhileSomebodySharesItOut(t *testing.T) {
	withCards(t, runtimefake.Program{Forever: true}, func(n *node) {
		s, ok := n.devices.(*shelf)
		if !ok {
			t.Fatal("no shelf")
		}
		s.setUnready(errNoDaemon)
		n.plane.add("1", image, share)
		n.refused("1", protocol.ReasonGPUUnavailable, errNoDaemon.Error())
		n.plane.add("2", image, card("A")) // nobody has to share that out
		n.runs("2")
		n.plane.setStatus("2", protocol.StatusStopping)
		n.ends(2*time.Minute, "2", protocol.StatusStopped)

		s.setUnready(nil)
		n.plane.add("3", image, share)
		n.runs("3")
		n.plane.setStatus("3", protocol.StatusSleeping)
		n.until(5*time.Minute, "3 asleep", func() bool { return n.plane.status("3") == protocol.StatusAsleep })
		s.setUnready(errNoDaemon)
		n.plane.setStatus("3", protocol.StatusWaking)
		n.until(5*time.Minute, "3 failed", func() bool { return n.plane.status("3") == protocol.StatusFailed })
		updates := n.plane.updates("3", protocol.StatusFailed)
		if u := updates[len(updates)-1]; u.Reason != protocol.ReasonGPUUnavailable || n.starts("3", "1") != 1 {
			t.Errorf("woken without a daemon: %d starts, %+v", n.starts("3", "1"), u)
		}
	})
}

var errNoDaemon = errors.New("there is no MPS control daemon")

func TestAContainerKeepsItsCardsOverARestartOfTheAgent(t *testing.T) {
	for name, end := range map[string]func(n *node){"in good order": (*node).stop, "by a kill": (*node).kill} {
		t.Run(name, func(t *testing.T) {
			withCards(t, runtimefake.Program{Runs: time.Hour}, func(n *node) {
				n.plane.add("1", image, card("A"))
				n.runs("1")
				end(n)
				n.plane.add("2", image, card("A")) // it waits for the next agent
				n.start()
				n.refused("2", protocol.ReasonGPUConflict, "held by task 1")
				n.ends(2*time.Hour, "1", protocol.StatusCompleted)
				n.plane.add("3", image, card("A"))
				n.runs("3")
			})
		})
	}
}

func TestAProcessThatCannotBeKilledKeepsItsCard(t *testing.T) {
	withCards(t, runtimefake.Program{Unkillable: true}, func(n *node) {
		n.plane.add("1", image, card("A"))
		n.runs("1")
		n.plane.setStatus("1", protocol.StatusStopping)
		time.Sleep(10 * time.Minute)
		n.daemon.AddImage(image, runtimefake.Program{})
		n.plane.add("2", image, card("A"))
		n.refused("2", protocol.ReasonGPUConflict)
		n.daemon.Vanish("task-1")
		n.ends(5*time.Minute, "1", protocol.StatusStopped)
		n.plane.add("3", image, card("A"))
		n.ends(5*time.Minute, "3", protocol.StatusCompleted)
	})
}

func TestAContainerThatHasEndedHoldsNoCard(t *testing.T) {
	withCards(t, runtimefake.Program{}, func(n *node) {
		lift := n.plane.trouble(trouble{which: reports, times: -1, status: 503})
		n.plane.add("1", image, card("A"))
		n.until(10*time.Minute, "1 ended, and owed", func() bool { return n.state("1") == runtime.StateExited && n.agent.executor.Undelivered() == 1 })
		n.daemon.AddImage(image, runtimefake.Program{Forever: true})
		n.plane.add("2", image, card("A"))
		n.runs("2")
		lift()
		n.ends(10*time.Minute, "1", protocol.StatusCompleted)
		n.plane.add("3", image, card("A"))
		n.refused("3", protocol.ReasonGPUConflict, "held by task 2")
	})
}

func TestOnlyAContainerThatMayHoldAProcessIsFoundHoldingItsCard(t *testing.T) {
	for state, holds := range map[runtime.State]bool{
		runtime.StateExited: false, runtime.StateDead: false,
		runtime.StateRunning: true, runtime.StatePaused: true, runtime.StateRestarting: true, runtime.StateRemoving: true, runtime.StateUnknown: true,
	} {
		t.Run(string(state), func(t *testing.T) {
			withCards(t, runtimefake.Program{Forever: true}, func(n *node) {
				n.plane.add("1", image, card("A"))
				n.runs("1")
				n.plane.trouble(trouble{which: reports, times: -1, status: 503}) // it stays, for its report is owed
				n.kill()
				n.daemon.Force("task-1", state)
				n.start()
				n.plane.add("2", image, card("A"))
				if holds {
					n.until(5*time.Minute, "2 refused", func() bool { return n.logged("task could not be launched") })
				} else {
					n.runs("2")
				}
				if got := n.starts("2", "1") == 1; got == holds {
					t.Errorf("2 was started: %v", got)
				}
			})
		})
	}
}

func TestATaskThatSleepsLendsItsCard(t *testing.T) {
	withCards(t, runtimefake.Program{Forever: true}, func(n *node) {
		n.plane.add("1", image, card("A"))
		n.runs("1")
		n.plane.setStatus("1", protocol.StatusSleeping)
		n.fallsAsleep()
		n.plane.add("2", image, card("A"))
		n.runs("2")
		n.plane.setStatus("1", protocol.StatusWaking)
		n.until(5*time.Minute, "1 failed", func() bool { return n.plane.status("1") == protocol.StatusFailed })
		updates := n.plane.updates("1", protocol.StatusFailed)
		if u := updates[len(updates)-1]; u.Reason != protocol.ReasonGPUConflict {
			t.Errorf("reason %q, want gpu_conflict: %s", u.Reason, u.ErrorMessage)
		}
		if n.starts("1", "1") != 1 {
			t.Errorf("%d starts on a card of another", n.starts("1", "1"))
		}
	})
}

func TestACardOfAContainerThatSomebodyRemovedIsFreeAgain(t *testing.T) {
	withCards(t, runtimefake.Program{Forever: true}, func(n *node) {
		n.plane.add("1", image, card("A"))
		n.runs("1")
		// Nobody looks after it any more: its removal fails too often.
		n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpRemove, Times: 5, Err: runtime.ErrConflict})
		n.plane.remove("1")
		n.until(5*time.Minute, "1 given up", func() bool { return !n.agent.executor.Owns("1") })
		n.daemon.Vanish("task-1")
		n.plane.add("2", image, card("A"))
		n.runs("2")
	})
}

func TestACardThatCannotBeGivenIsGPUUnavailable(t *testing.T) {
	cases := map[string]func(n *node){
		"as the inventory says": func(n *node) {
			n.plane.add("1", image, func(t *protocol.Task) { t.Devices = []protocol.TaskDevice{{Index: new(7)}} })
		},
		"as the runtime says when the container is made": func(n *node) {
			n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpCreate, Times: 1, Err: runtime.ErrDeviceUnavailable})
			n.plane.add("1", image, card("A"))
		},
		"as the runtime says when it is started": func(n *node) {
			n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpStart, Times: 1, Err: runtime.ErrDeviceUnavailable})
			n.plane.add("1", image, card("A"))
		},
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			withCards(t, runtimefake.Program{Forever: true}, func(n *node) {
				prepare(n)
				n.until(2*time.Minute, "failed", func() bool { return n.plane.status("1") == protocol.StatusFailed })
				if u := n.plane.updates("1", protocol.StatusFailed)[0]; u.Reason != protocol.ReasonGPUUnavailable {
					t.Errorf("reason %q: %s", u.Reason, u.ErrorMessage)
				}
				n.plane.add("2", image, card("A"))
				n.runs("2")
			})
		})
	}
}

func TestOnlyATaskWithCardsAsksTheRuntimeAboutThem(t *testing.T) {
	withCards(t, runtimefake.Program{Forever: true}, func(n *node) {
		s, ok := n.devices.(*shelf)
		if !ok {
			t.Fatal("no shelf")
		}
		n.plane.add("1", image)
		n.runs("1")
		n.plane.add("2", image, card("A"))
		n.runs("2")
		n.until(time.Minute, "both containers were looked at", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.verified) == 2
		})
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.probed) != 2 || s.probed[0].Version != "" || s.probed[1].Version == "" {
			t.Errorf("asked with %+v", s.probed)
		}
		if len(s.verified[0].Holds) != 0 || len(s.verified[1].Holds) != 1 {
			t.Errorf("verified %+v", s.verified)
		}
	})
}

func TestAContainerWithOtherDevicesThanItWasGivenGoesOnAndIsReported(t *testing.T) {
	mismatch := &taskcontainer.MismatchError{Extra: []taskcontainer.Node{{Path: "/dev/card9", Type: "c", Major: 195, Minor: 9}}}
	cases := map[string]struct {
		change func(*protocol.Task)
		state  protocol.HealthState
	}{
		"a task without a probe": {unchanged, protocol.HealthUnknown},
		"a task with one": {func(t *protocol.Task) {
			t.Network = protocol.NetworkNone // nothing answers there
			t.HealthCheck = &protocol.HealthCheck{Type: protocol.HealthTCP, Port: 80}
		}, protocol.HealthUnknown},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.stop()
				n.devices = &shelf{mismatch: mismatch}
				n.start()
				n.daemon.AddImage(image, runtimefake.Program{Runs: time.Hour})
				n.plane.add("1", image, tc.change)
				n.runs("1")
				time.Sleep(time.Minute)
				health := n.agent.executor.Health()
				if len(health) != 1 || health[0].State != tc.state || !strings.Contains(health[0].Message, "/dev/card9 (c 195:9)") {
					t.Errorf("health %+v", health)
				}
				if !n.logged("other device nodes than it was given") {
					t.Error("nothing is logged")
				}
				n.ends(2*time.Hour, "1", protocol.StatusCompleted)
				if health := n.agent.executor.Health(); len(health) != 0 {
					t.Errorf("after its end: %+v", health)
				}
			})
		})
	}
}

func TestDevicesThatCannotBeLookedAtAreNoMismatch(t *testing.T) {
	onNode(t, func(n *node) {
		n.stop()
		n.devices = &shelf{mismatch: errors.New("no such process")}
		n.start()
		n.daemon.AddImage(image, runtimefake.Program{Forever: true})
		n.plane.add("1", image, card("A"))
		n.runs("1")
		time.Sleep(time.Minute)
		if health := n.agent.executor.Health(); len(health) != 0 || !n.logged("could not be verified") {
			t.Errorf("health %+v", health)
		}
	})
}

// Wherever the agent dies, two tasks that want one card never run at the same time, and in
// the end the card is free.
func TestACardIsNeitherSharedNorLostWhereverTheAgentDies(t *testing.T) {
	for _, name := range []string{"that completes", "that sleeps, wakes and is stopped"} {
		t.Run("one "+name, func(t *testing.T) {
			for moment := int64(1); ; moment += 7 {
				came := true
				synctest.Test(t, func(t *testing.T) { came = cardOutlivesDeath(t, stories[name], moment) })
				if !came || t.Failed() {
					return
				}
			}
		})
	}
}

const rivalImage = "registry.example/rival:v1"

func cardOutlivesDeath(t *testing.T, s story, moment int64) (came bool) {
	n := newNode(t)
	n.devices = &shelf{}
	defer n.check()
	n.daemon.AddImage(rivalImage, runtimefake.Program{Runs: 15 * time.Second})
	s.task = card("A")
	tell, rivals := s.tell, 0
	s.tell = func(n *node, after time.Duration) {
		if int(after/(30*time.Second)) >= rivals { // one more every half a minute
			rivals++
			n.plane.add(fmt.Sprintf("rival-%d", rivals), rivalImage, card("A"))
		}
		if tell != nil {
			tell(n, after)
		}
	}
	watching, stop := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() {
		for watching.Err() == nil {
			var running []string
			for _, c := range n.daemon.Containers() {
				if c.State == runtime.StateRunning {
					running = append(running, c.Name)
				}
			}
			if len(running) > 1 {
				t.Errorf("killed at moment %d: %q run on one card", moment, running)
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
	defer watch.Wait()
	defer stop()
	came = s.play(n, moment, 5*time.Second)
	n.atMoments(func() {})
	n.until(5*time.Minute, "every rival over", func() bool {
		for i := range rivals {
			if id := fmt.Sprintf("rival-%d", i+1); !n.plane.status(id).Terminal() || !n.clean(id) {
				return false
			}
		}
		return true
	})
	n.plane.add("last", rivalImage, card("A"))
	n.ends(time.Minute, "last", protocol.StatusCompleted)
	return came
}
