package executor_test

import (
	"testing"
	"time"

	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// What the control plane may say of a task whose container is young: facts that it may not
// have everywhere yet, and what it asks for.
var sayings = map[string]struct {
	say   func(n *node)
	asked bool
}{
	"that another node has it":        {func(n *node) { n.plane.set("1", func(t *protocol.Task) { t.NodeID = "node-2" }) }, false},
	"that another was given it":       {func(n *node) { n.plane.set("1", func(t *protocol.Task) { t.NodeID, t.Generation = "node-2", 2 }) }, false},
	"that it has completed":           {func(n *node) { n.plane.setStatus("1", protocol.StatusCompleted) }, false},
	"that it has failed":              {func(n *node) { n.plane.setStatus("1", protocol.StatusFailed) }, false},
	"that it was stopped":             {func(n *node) { n.plane.setStatus("1", protocol.StatusStopped) }, false},
	"how it was before the claim":     {func(n *node) { n.plane.set("1", func(t *protocol.Task) { t.Status, t.Generation = "cancelled", 0 }) }, false},
	"that it is cancelled":            {func(n *node) { n.plane.setStatus("1", protocol.StatusCancelled) }, true},
	"that it is to stop":              {func(n *node) { n.plane.setStatus("1", protocol.StatusStopping) }, true},
	"that it was deleted":             {func(n *node) { n.plane.remove("1") }, true},
	"that it is to run anew, as next": {func(n *node) { n.plane.set("1", func(t *protocol.Task) { t.Generation = 2 }) }, true},
}

// life lets time pass until the container of task 1 is gone, and returns how old it became.
func (n *node) life() time.Duration {
	n.t.Helper()
	var made time.Time
	for _, c := range n.daemon.Containers() {
		if c.Name == taskcontainer.Name("1") {
			made = c.CreatedAt
		}
	}
	n.until(5*time.Minute, "the container gone", func() bool { return n.state("1") == "" })
	return time.Since(made)
}

func TestAYoungContainerGoesOnlyWhenThatIsAskedFor(t *testing.T) {
	for name, s := range sayings {
		t.Run(name, func(t *testing.T) {
			running(t, runtimefake.Program{Forever: true}, func(n *node) {
				time.Sleep(10 * time.Second)
				s.say(n)
				switch age := n.life(); {
				case s.asked && age > 40*time.Second:
					t.Errorf("it went only at an age of %v", age)
				case !s.asked && age < time.Minute:
					t.Errorf("it went at an age of %v", age)
				case !s.asked && age > 70*time.Second:
					t.Errorf("it went only at an age of %v: nothing was asked for again", age)
				}
			})
		})
	}
}

func TestAYoungContainerIsSparedByALaterAgentHoweverTheClockIsSet(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"right": 0, "back": 2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.SetClock(ahead)
				n.daemon.AddImage(image, runtimefake.Program{Forever: true})
				n.plane.add("1", image)
				n.runs("1")
				time.Sleep(10 * time.Second)
				n.kill()
				n.plane.remove("1") // this agent never sees that it was there
				begun := time.Now()
				n.start()
				n.until(5*time.Minute, "the container gone", func() bool { return n.state("1") == "" })
				if took := time.Since(begun); took < 45*time.Second || took > 75*time.Second {
					t.Errorf("it went after %v", took)
				}
			})
		})
	}
}

func TestAnOldContainerGoesByAFactAlsoWhenALaterAgentFindsIt(t *testing.T) {
	running(t, runtimefake.Program{Forever: true}, func(n *node) {
		time.Sleep(2 * time.Minute)
		n.kill()
		n.plane.set("1", func(t *protocol.Task) { t.NodeID = "node-2" })
		n.start()
		n.until(20*time.Second, "the container gone", func() bool { return n.state("1") == "" })
	})
}

func TestAYoungContainerLivesOnWhenTheFactIsTakenBack(t *testing.T) {
	running(t, runtimefake.Program{Forever: true}, func(n *node) {
		n.plane.setStatus("1", protocol.StatusFailed)
		time.Sleep(30 * time.Second)
		n.plane.setStatus("1", protocol.StatusRunning)
		time.Sleep(10 * time.Minute)
		if n.state("1") != runtime.StateRunning || n.starts("1", "1") != 1 {
			t.Errorf("it is %q, started %d times", n.state("1"), n.starts("1", "1"))
		}
	})
}

func TestAYoungContainerThatNeverRanIsNotStartedForATaskThatIsNotHere(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Forever: true})
		n.plane.add("1", image, func(t *protocol.Task) { t.Status = protocol.StatusRunning })
		n.found(runtime.StateCreated)
		n.plane.set("1", func(t *protocol.Task) { t.NodeID = "node-2" })
		n.start()
		if age := n.life(); age < time.Minute || n.starts("1", "1") != 0 {
			t.Errorf("it went at an age of %v, started %d times", age, n.starts("1", "1"))
		}
	})
}

func TestALaunchIsNotGivenUpForWhatTheTaskWasBeforeItsClaim(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.Publish(image, runtimefake.Published{Takes: 30 * time.Second, Program: runtimefake.Program{Forever: true}})
		n.plane.add("1", image, func(t *protocol.Task) { t.Generation = 2 })
		n.until(time.Minute, "pulling", func() bool { return n.daemon.Pulls(image) == 1 })
		n.plane.set("1", func(t *protocol.Task) { t.Status, t.Generation, t.NodeID = protocol.StatusFailed, 1, "node-2" })
		time.Sleep(10 * time.Second)
		n.plane.set("1", func(t *protocol.Task) { t.Status, t.Generation, t.NodeID = protocol.StatusRunning, 2, nodeID })
		n.runs("1")
		if made := n.daemon.Made(); made != 1 {
			t.Errorf("%d containers were made", made)
		}
	})
}
