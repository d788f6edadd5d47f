// Package wallclock is the clock on the wall: what is written down, reported, or compared
// with a time from outside the process is read from it. It may be set while the agent runs,
// by hours and in either direction.
//
// What is to last for so long, within the process, is measured by time.Now instead, whose
// monotonic reading nobody can set. The package decides nothing and runs no goroutine.
package wallclock

import "time"

// Now is the time of day, without a monotonic reading: two of these differ by what the
// clock was set by meanwhile, too.
func Now() time.Time { return time.Now().Round(0).Add(offset()) }
