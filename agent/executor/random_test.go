package executor_test

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	containers "github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// event is one thing that happens in a random schedule.
type event struct {
	What  string
	Task  string
	Times int
	Which int
	Flag  bool
}

var events = map[string]func(n *node, e event){
	"time passes": func(_ *node, e event) { time.Sleep(time.Duration(e.Times*e.Times*e.Times) * time.Second) },
	"restart":     func(n *node, _ event) { n.restart() },
	"kill":        func(n *node, _ event) { n.kill(); n.start() },
	"daemon away": func(n *node, e event) {
		n.daemon.Stop()
		time.AfterFunc(time.Duration(e.Times)*20*time.Second, n.daemon.Resume)
	},
	"waits cut":      func(n *node, _ event) { n.daemon.CutWaits() },
	"call fails":     func(n *node, e event) { n.daemon.Inject(runtimefake.Fault{Op: opOf(e), Times: e.Times}) },
	"answer lost":    func(n *node, e event) { n.daemon.Inject(runtimefake.Fault{Op: opOf(e), Times: e.Times, Applied: true}) },
	"call hangs":     func(n *node, e event) { n.daemon.Inject(runtimefake.Fault{Op: opOf(e), Times: 1, Hangs: true}) },
	"plane trouble":  func(n *node, e event) { n.plane.trouble(troubleOf(e)) },
	"bare conflicts": func(n *node, e event) { n.plane.answers(e.Flag, nil) },
	"stop":           func(n *node, e event) { n.move(e.Task, protocol.StatusStopping) },
	"sleep":          func(n *node, e event) { n.move(e.Task, protocol.StatusSleeping) },
	"wake":           func(n *node, e event) { n.move(e.Task, protocol.StatusWaking) },
	"cancel":         func(n *node, e event) { n.move(e.Task, protocol.StatusCancelled) },
	"assign anew":    func(n *node, e event) { n.move(e.Task, protocol.StatusScheduled) },
	"move away":      func(n *node, e event) { n.moveAway(e.Task) },
	"delete":         func(n *node, e event) { n.plane.remove(e.Task) },
}

func opOf(e event) runtimefake.Op {
	return []runtimefake.Op{
		runtimefake.OpCreate, runtimefake.OpStart, runtimefake.OpStop, runtimefake.OpRemove,
		runtimefake.OpInspect, runtimefake.OpWait, runtimefake.OpList, runtimefake.OpImage,
	}[e.Which]
}

func troubleOf(e event) trouble {
	tr := []trouble{
		{},
		{applied: true},
		{status: 500},
		{status: 429, after: "7"},
		{status: 404, html: true},
		{status: 200, html: true},
		{which: reports},
		{which: reports, applied: true},
	}[e.Which]
	tr.times = e.Times
	return tr
}

// move makes the plane take the task to a status, where its own rules allow that.
func (n *node) move(id string, to protocol.TaskStatus) {
	n.plane.set(id, func(t *protocol.Task) {
		if t == nil || t.NodeID != nodeID || !protocol.CanTransition(t.Status, to) {
			return
		}
		t.Status = to
		n.asked[id] = true
		switch to {
		case protocol.StatusScheduled:
			t.Generation++
		case protocol.StatusWaking:
			n.wakes[fmt.Sprint(id, "/", t.Generation)]++
		default:
		}
	})
}

func (n *node) moveAway(id string) {
	n.plane.set(id, func(t *protocol.Task) {
		if t != nil && !t.Status.Terminal() {
			t.NodeID = "node-2"
		}
	})
}

// The programs of the tasks, by task.
var programs = map[string]runtimefake.Program{
	"a": {Runs: 40 * time.Second},
	"b": {Forever: true},
	"c": {Runs: 90 * time.Second, Code: 3, IgnoresTerm: true},
	"d": {Code: 3},
}

// survive lets the schedule happen and checks what must hold whatever it is.
func (n *node) survive(schedule []event) {
	n.wakes, n.asked = make(map[string]int), make(map[string]bool)
	n.daemon.OnRemove = n.mayGo
	for _, id := range slices.Sorted(maps.Keys(programs)) {
		ref := "registry.example/" + id + ":v1"
		n.daemon.AddImage(ref, programs[id])
		n.plane.add(id, ref)
	}
	n.start()
	defer n.check()
	for _, e := range schedule {
		events[e.What](n, e)
	}
	time.Sleep(10 * time.Minute)
	for id := range programs {
		n.move(id, protocol.StatusCancelled)
	}
	n.until(30*time.Minute, "nothing left", func() bool {
		return len(n.daemon.Containers()) == 0 && n.agent.executor.Undelivered() == 0
	})
	for id, p := range programs {
		n.checkStarts(id)
		for _, u := range n.plane.updates(id, over...) {
			n.checkTrue(u, p)
		}
	}
}

// mayGo holds that a container goes only after its result was delivered or on one of the
// facts that nobody waits for it: its task is over, deleted, another node's or assigned anew.
func (n *node) mayGo(c containers.Container) {
	id, err := taskcontainer.Identify(c, nodeID)
	if err != nil {
		n.t.Errorf("removed: %v", err)
		return
	}
	task := n.plane.get(id.TaskID)
	if task.ID != "" && !task.Status.Terminal() && task.NodeID == nodeID && task.Generation == id.Generation {
		n.t.Errorf("the container of task %s was removed while it was %s", task.ID, task.Status)
	}
	// A program that would run on has been ended by the agent.
	age := time.Since(c.CreatedAt)
	if p := programs[id.TaskID]; age < minAge && !c.StartedAt.IsZero() && (p.Forever || p.Runs > minAge) && task.ID != "" && !n.asked[id.TaskID] {
		n.t.Errorf("the container of task %s was ended and removed when it was %v old, and nobody had asked for that", task.ID, age)
	}
}

// checkStarts holds that a program ran once, and once more each time it was woken.
func (n *node) checkStarts(id string) {
	starts := make(map[string]int)
	for _, s := range n.daemon.Starts() {
		if s.Labels[taskcontainer.LabelTaskID] == id {
			starts[id+"/"+s.Labels[taskcontainer.LabelGeneration]]++
		}
	}
	for run, times := range starts {
		if times > 1+n.wakes[run] {
			n.t.Errorf("%s was started %d times and woken %d times", run, times, n.wakes[run])
		}
	}
}

// checkTrue holds that what was reported is what happened: nothing here loses containers,
// and a program that was stopped has not ended by itself.
func (n *node) checkTrue(u applied, p runtimefake.Program) {
	code := "none"
	if u.ExitCode != nil {
		code = strconv.Itoa(*u.ExitCode)
	}
	byItself := u.Reason == protocol.ReasonExited && code == strconv.Itoa(p.Code) && !p.Forever
	if !byItself && u.Status != protocol.StatusStopped {
		n.t.Errorf("task %s was reported as %s for %s, code %s: %s", u.ID, u.Status, u.Reason, code, u.ErrorMessage)
	}
}

// findings takes what a test finds instead of failing it, so that the schedule can be made
// smaller.
type findings struct {
	testing.TB
	mu  sync.Mutex
	all []string
}

func (f *findings) note(s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, s)
}

func (f *findings) Error(args ...any)                 { f.note(fmt.Sprint(args...)) }
func (f *findings) Errorf(format string, args ...any) { f.note(fmt.Sprintf(format, args...)) }
func (f *findings) Log(...any)                        {}
func (f *findings) Fatal(args ...any)                 { f.Error(args...); runtime.Goexit() }
func (f *findings) Fatalf(format string, args ...any) { f.Errorf(format, args...); runtime.Goexit() }

// schedules draws up to 25 events.
func schedules() *rapid.Generator[[]event] {
	kinds := slices.Sorted(maps.Keys(events))
	one := rapid.Custom(func(r *rapid.T) event {
		return event{
			What: rapid.SampledFrom(kinds).Draw(r, "what"), Task: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(r, "task"),
			Times: rapid.IntRange(1, 5).Draw(r, "times"), Which: rapid.IntRange(0, 7).Draw(r, "which"), Flag: rapid.Bool().Draw(r, "flag"),
		}
	})
	return rapid.SliceOfN(one, 1, 25)
}

// tryOut lets the schedule happen on a node of its own and returns what was found.
func tryOut(t *testing.T, schedule []event) (found []string) {
	synctest.Test(t, func(t *testing.T) {
		f := &findings{TB: t}
		var run sync.WaitGroup
		run.Go(func() { newNode(f).survive(schedule) }) // its own goroutine: a Fatal ends it
		run.Wait()
		found = f.all
	})
	return found
}

func TestNoScheduleOfFaultsRunsATaskTwiceForgetsOneOrReportsWhatIsNotSo(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		if found := tryOut(t, schedules().Draw(r, "schedule")); len(found) > 0 {
			r.Fatalf("%q", found)
		}
	})
}

const fixedSchedules = 200

func TestTheSameSchedulesOfFaultsAreSurvivedInEveryRun(t *testing.T) {
	for seed := range fixedSchedules {
		schedule := schedules().Example(seed)
		if found := tryOut(t, schedule); len(found) > 0 {
			t.Errorf("schedule %d, %+v: %q", seed, schedule, found)
		}
	}
}
