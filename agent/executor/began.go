package executor

import (
	"time"

	"github.com/heteroflow/node-agent/agent/bootclock"
	"github.com/heteroflow/node-agent/agent/wallclock"
)

// oldest is no run: beyond it sums of times would be out of range.
const oldest = 100 * 365 * 24 * time.Hour

// sight is when a run began, worked out once, when this agent first sees the run: however
// the clock on the wall is set afterwards, what counts from there becomes neither shorter
// nor longer.
type sight struct {
	run   time.Time // when it was started, as the runtime says
	began time.Time // with a monotonic reading
}

// Begun is what the journal keeps of the beginning of a run from which something counts, a
// time limit or the patience of a health check, by the clock that counts from the machine's
// start: a later agent counts on with it.
type Begun struct {
	bootclock.Moment
	// Asked: at that moment, which was this one on the wall, the runtime was asked to start
	// the run, which has not been seen yet. Zero: the run began then.
	Asked time.Time `json:"asked,omitzero"`
	// Run is when the run was started, as the runtime says, that began at that moment.
	Run time.Time `json:"run,omitzero"`
}

// began is when the run began that the runtime says was started at started, with a monotonic
// reading.
func (t *task) began(started time.Time) time.Time {
	if !t.sight.run.Equal(started) {
		now, ok := t.e.BootClock()
		age, known := t.record.Begun.age(started, wallclock.Now(), now)
		if ok && !known {
			t.remember(func(r *Record) { r.Begun = &Begun{Moment: now.Before(age), Run: started} })
		}
		t.sight = sight{run: started, began: time.Now().Add(-age)}
	}
	return t.sight.began
}

// begins notes that a run is started now from whose beginning something will count.
func (t *task) begins() *Begun {
	if t.supervision.Timeout == 0 && t.supervision.Health == nil {
		return nil
	}
	now, ok := t.e.BootClock()
	if !ok {
		return nil
	}
	return &Begun{Moment: now, Asked: wallclock.Now()}
}

// age is how long ago a run began, and whether that was noted when it was first seen. What
// was not is told by the clock on the wall, which may have been set: it is asked for the
// shortest time that will do, the one from the request to the start, and believed within
// what is known without it. No run is older than the request for it, or younger than nothing.
func (b *Begun) age(started, wall time.Time, now bootclock.Moment) (age time.Duration, known bool) {
	if b != nil {
		since, ok := now.Since(b.Moment)
		switch {
		case ok && !b.Asked.IsZero():
			return since - min(max(0, started.Sub(b.Asked)), since), false
		case ok && b.Run.Equal(started):
			return since, true
		}
	}
	return min(max(0, wall.Sub(started)), oldest), false
}
