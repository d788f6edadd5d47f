package executor

import "time"

// timeLimit is how long a task's run may still take. It is worked out once, when this agent
// first sees the run, and counts by the kernel's monotonic clock from then on: however the
// clock on the wall is set meanwhile, the time becomes neither shorter nor longer.
type timeLimit struct {
	asked time.Time // when this agent first asked for the start, with a monotonic reading; zero: an earlier one did
	run   time.Time // when the run that is seen was started, as the runtime says
	up    time.Time // when its time is up, with a monotonic reading
}

// asks notes that this agent asks the runtime for the start now, perhaps not the first time.
func (l *timeLimit) asks() {
	if l.asked.IsZero() {
		l.asked = time.Now()
	}
}

// left is what is left of the limit to a run that the runtime says was started at started.
// now is the time on the wall.
func (l *timeLimit) left(limit time.Duration, started, now time.Time) time.Duration {
	if !l.run.Equal(started) {
		l.run, l.up = started, time.Now().Add(limit-l.age(limit, started, now))
	}
	return time.Until(l.up)
}

// age is how much of its limit a run has used up by the clock on the wall. That clock may
// have been set since the start, so it is believed within what is known without it: no run
// is older than the request for it, or younger than nothing.
func (l *timeLimit) age(limit time.Duration, started, now time.Time) time.Duration {
	oldest := limit
	if !l.asked.IsZero() {
		oldest = min(oldest, time.Since(l.asked))
	}
	return min(max(0, now.Sub(started)), oldest)
}
