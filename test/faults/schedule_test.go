package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/engine"
)

// The variables that choose other schedules than those of every test run.
const (
	soakVariable = "HFTEST_SOAK" // how long to draw schedules, as a Go duration
	seedVariable = "HFTEST_SEED" // from which number
)

// Of the schedules that are always the same: every test run plays the first of them, and a
// soak all. That does not make what happens the same: the daemons and the kernel have a say
// in it.
const (
	fixedSeed       = 20261130
	fixedSchedules  = 40
	alwaysSchedules = 14
	scheduleLanes   = 6
)

// stormy are daemons that schedules kill and hang, one at a time. Who looks at them from
// outside the agent holds off the next trouble meanwhile.
type stormy struct {
	*engine.Engines
	trouble sync.RWMutex
	deaths  atomic.Int64
}

// drama is one schedule under way.
type drama struct {
	*node
	daemons *stormy
	ids     map[string]string
	wakes   map[string]int
	deaths  int64 // of the daemons, before it
}

// The tasks of each schedule, by name: one that ends well, one that ends badly, and one
// that has to be ended.
var cast = map[string][]string{"good": {"sleep", "700ms"}, "bad": {"exit", "3"}, "endless": {"sleep", "1h"}}

// act is one thing that happens.
type act struct {
	what  string
	task  string
	which int
	times int
}

// acts are what may happen, and in how many of a hundred cases it is that.
var acts = map[string]struct {
	share int
	do    func(d *drama, a act)
}{
	"agent dies":            {10, func(d *drama, _ act) { d.restart("") }},
	"agent dies at a point": {20, func(d *drama, a act) { d.restart("CRASHPOINT=*#" + strconv.Itoa(a.times)) }},
	"plane in trouble": {20, func(d *drama, a act) {
		trouble := troubles[slices.Sorted(maps.Keys(troubles))[a.which%len(troubles)]]
		trouble.Match, trouble.Count = fromAgent, a.times/3+1
		d.Plane.Faults.Add(trouble)
	}},
	"stop":  {10, func(d *drama, a act) { d.tries(d.ids[a.task], operator.ActionStop) }},
	"sleep": {10, func(d *drama, a act) { d.tries(d.ids[a.task], operator.ActionSleep) }},
	"wake": {10, func(d *drama, a act) {
		if d.tries(d.ids[a.task], operator.ActionWake) {
			d.wakes[a.task]++
		}
	}},
	"cancel":       {3, func(d *drama, a act) { d.tries(d.ids[a.task], operator.ActionCancel) }},
	"time passes":  {14, func(d *drama, a act) { d.pass(time.Duration(a.times) * 50 * time.Millisecond) }},
	"daemons hang": {2, func(d *drama, a act) { d.disturb(hangs, time.Duration(a.times)*100*time.Millisecond) }},
	"daemons die":  {1, func(d *drama, a act) { d.disturb(dies, time.Duration(a.times)*50*time.Millisecond) }},
}

func draw(r *rand.Rand) []act {
	var bag []string
	for _, what := range slices.Sorted(maps.Keys(acts)) {
		bag = append(bag, slices.Repeat([]string{what}, acts[what].share)...)
	}
	names := slices.Sorted(maps.Keys(cast))
	drawn := make([]act, 3+r.IntN(8))
	for i := range drawn {
		drawn[i] = act{bag[r.IntN(len(bag))], names[r.IntN(len(names))], r.IntN(64), 1 + r.IntN(30)}
	}
	return drawn
}

// pass lets time pass.
func (d *drama) pass(t time.Duration) {
	select {
	case <-time.After(t):
	case <-d.T.Context().Done():
	}
}

// restart has the agent die, and another one start, with more environment.
func (d *drama) restart(env string) {
	d.T.Helper()
	d.Agent.Kill()
	d.Agent.Env = nil
	if env != "" {
		d.Agent.Env = []string{env}
	}
	d.Start()
}

// revive starts the agent where it has died at its point.
func (d *drama) revive() {
	d.T.Helper()
	if d.agentIsDead() {
		d.restart("")
	}
}

func (d *drama) disturb(trouble daemonTrouble, lasts time.Duration) {
	d.T.Helper()
	d.daemons.trouble.Lock()
	defer d.daemons.trouble.Unlock()
	if trouble.deadly {
		d.daemons.deaths.Add(1) // before an agent can tell what was lost
	}
	if err := trouble.begin(d.daemons.Engines, d.T); err != nil {
		d.T.Fatal(err)
	}
	d.pass(lasts)
	if err := trouble.end(d.daemons.Engines, d.T); err != nil {
		d.T.Fatal(err)
	}
}

// play plays a schedule to its end and checks what must hold whatever it is.
func play(t *testing.T, l lane, daemons *stormy, number uint64, script []act) {
	t.Cleanup(daemons.trouble.RUnlock)
	d := &drama{
		node: newNode(t, l.place(daemons.Engines, runtimes[number%2]), hasty...), daemons: daemons,
		ids: make(map[string]string), wakes: make(map[string]int), deaths: daemons.deaths.Load(),
	}
	t.Cleanup(daemons.trouble.RLock) // while the world ends
	for name, args := range cast {
		task := d.task(name, args...)
		d.Submit(task)
		d.ids[name] = task.ID
	}
	d.Start()
	for _, a := range script {
		acts[a.what].do(d, a)
		d.revive()
	}
	d.Plane.Faults.Release()
	d.Eventually("all tasks over", func() bool {
		d.revive()
		over := true
		for name, id := range d.ids {
			status := d.read(id).Status
			switch over = over && status.Terminal(); {
			case status == protocol.StatusAsleep:
				d.tries(id, operator.ActionCancel)
			case status == protocol.StatusRunning && name == "endless":
				d.tries(id, operator.ActionStop)
			}
		}
		return over
	})
	d.revive()
	d.awaitNothingLeft()
	for name := range cast {
		d.check(name)
	}
}

// check holds that a task ended once, as it truly did, and never ran more often than it was to.
func (d *drama) check(name string) {
	d.T.Helper()
	id := d.ids[name]
	task, lines, reports := d.read(id), d.noted(id), d.reports(id)
	if starts := d.starts(id); starts > 1+d.wakes[name] {
		d.T.Errorf("%s was started %d times and woken %d times: %q", name, starts, d.wakes[name], lines)
	}
	if want := 1; len(reports) != want && task.Status != protocol.StatusCancelled || len(reports) > want {
		d.T.Errorf("%s is %s and was reported %d times: %+v", name, task.Status, len(reports), reports)
	}
	code := -1
	if task.Outcome.ExitCode != nil {
		code = *task.Outcome.ExitCode
	}
	switch task.Status {
	case protocol.StatusCancelled, protocol.StatusStopped:
	case protocol.StatusCompleted, protocol.StatusFailed:
		exited := task.Outcome.Reason == protocol.ReasonExited && slices.Contains(lines, fmt.Sprintf("end-%d", code))
		if !exited && !d.lost(task.Outcome.Reason) {
			d.T.Errorf("%s is %s (%s, code %d: %s), and noted %q", name, task.Status, task.Outcome.Reason, code, task.Outcome.ErrorMessage, lines)
		}
	default:
		d.T.Errorf("%s is %s", name, task.Status)
	}
}

// lost: a Docker that dies within a start or an end does not know of it afterwards, and
// nobody can tell how the program ended.
func (d *drama) lost(reason protocol.Reason) bool {
	return d.place.Kind == runtime.Docker && reason == protocol.ReasonExitUnknown && d.daemons.deaths.Load() > d.deaths
}

// perform plays the numbered schedules that come.
func perform(t *testing.T, seed uint64, numbers func(yield func(uint64) bool)) {
	daemons := &stormy{Engines: ownEngines(t, engine.Options{})}
	inLanes(t, scheduleLanes, numbers,
		func(number uint64) string { return fmt.Sprintf("schedule %d of seed %d", number, seed) },
		func(t *testing.T, l lane, number uint64) {
			script := draw(rand.New(rand.NewPCG(seed, number)))
			defer func() {
				if t.Failed() {
					t.Logf("the schedule, on %s: %+v", runtimes[number%2], script)
				}
			}()
			play(t, l, daemons, number, script)
		})
}

func TestNoScheduleOfFaultsRunsATaskTwiceLosesItsEndOrLeavesAnything(t *testing.T) {
	t.Parallel()
	count := uint64(alwaysSchedules)
	if os.Getenv(soakVariable) != "" {
		count = fixedSchedules
	}
	perform(t, fixedSeed, func(yield func(uint64) bool) {
		for n := range count {
			if !yield(n) {
				return
			}
		}
	})
}

func TestSoak(t *testing.T) {
	if os.Getenv(soakVariable) == "" {
		t.Skip(soakVariable + " is not set: make soak sets it")
	}
	lasts, err := time.ParseDuration(os.Getenv(soakVariable))
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	if value := os.Getenv(seedVariable); value != "" {
		if seed, err = strconv.ParseUint(value, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed %d; to draw the same schedules again: %s=%d", seed, seedVariable, seed)
	over := time.Now().Add(lasts)
	perform(t, seed, func(yield func(uint64) bool) {
		for n := uint64(0); time.Now().Before(over); n++ {
			if !yield(n) {
				return
			}
		}
	})
}
