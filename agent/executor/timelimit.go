package executor

import (
	"time"

	"github.com/heteroflow/node-agent/agent/bootclock"
	"github.com/heteroflow/node-agent/agent/wallclock"
)

// timeLimit is when a run's time is up. It is worked out once, when this agent first sees
// the run, and counts by the kernel's monotonic clock from then on: however the clock on the
// wall is set meanwhile, the time becomes neither shorter nor longer.
type timeLimit struct {
	run time.Time // when the run was started, as the runtime says
	up  time.Time // with a monotonic reading
}

// Timed is what the journal keeps of the beginning of a run that has a time limit, by the
// clock that counts from the machine's start: a later agent counts on with it.
type Timed struct {
	bootclock.Moment
	// Asked: at that moment, which was this one on the wall, the runtime was asked to start
	// the run, which has not been seen yet. Zero: the run began then.
	Asked time.Time `json:"asked,omitzero"`
	// Run is when the run was started, as the runtime says, that began at that moment.
	Run time.Time `json:"run,omitzero"`
}

// timeLeft is what is left of the limit to the run that the runtime says was started at
// started.
func (t *task) timeLeft(limit time.Duration, started time.Time) time.Duration {
	if !t.limit.run.Equal(started) {
		now, ok := t.e.BootClock()
		age, known := t.record.Timed.age(limit, started, wallclock.Now(), now)
		if ok && !known {
			t.remember(func(r *Record) { r.Timed = &Timed{Moment: now.Before(age), Run: started} })
		}
		t.limit = timeLimit{run: started, up: time.Now().Add(limit - age)}
	}
	return time.Until(t.limit.up)
}

// timed notes that a run is started now, whose time limit is to count.
func (t *task) timed() *Timed {
	if now, ok := t.e.BootClock(); ok && t.supervision.Timeout > 0 {
		return &Timed{Moment: now, Asked: wallclock.Now()}
	}
	return nil
}

// age is how much of its limit a run has used up, and whether that was noted when it was
// first seen. What was not is told by the clock on the wall, which may have been set: it is
// asked for the shortest time that will do, the one from the request to the start, and
// believed within what is known without it. No run is older than the request for it, or
// younger than nothing.
func (b *Timed) age(limit time.Duration, started, wall time.Time, now bootclock.Moment) (age time.Duration, known bool) {
	if b != nil {
		since, ok := now.Since(b.Moment)
		switch {
		case ok && !b.Asked.IsZero():
			return min(since-within(since, started.Sub(b.Asked)), limit), false
		case ok && b.Run.Equal(started):
			return min(since, limit), true
		}
	}
	return within(limit, wall.Sub(started)), false
}

// within is d, or the end of the range from 0 to most that is nearer to it.
func within(most, d time.Duration) time.Duration { return min(max(0, d), most) }
