package executor

import (
	"fmt"
	"slices"
)

// Phase is how far a task has come on this node.
type Phase string

// The phases. A task ends by leaving the executor, after Removing.
const (
	Claimed   Phase = "claimed"   // won at the control plane, nothing done yet
	Pulling   Phase = "pulling"   // waiting for its image
	Creating  Phase = "creating"  // the container is being made
	Starting  Phase = "starting"  // the container exists and is being started
	Running   Phase = "running"   // supervised
	Stopping  Phase = "stopping"  // the container is being stopped, to be kept or not
	Asleep    Phase = "asleep"    // stopped and kept, to be woken
	Waking    Phase = "waking"    // the kept container is being started again
	Reporting Phase = "reporting" // it has ended; the result is on its way
	Owing     Phase = "owing"     // the result could not be delivered yet; the container is kept
	Removing  Phase = "removing"  // nothing is owed any more; the container goes
)

// next is which phases may follow which.
var next = map[Phase][]Phase{
	Claimed:   {Pulling, Running, Stopping, Reporting, Removing},
	Pulling:   {Creating, Reporting, Removing},
	Creating:  {Starting, Pulling, Reporting, Removing}, // Pulling: its image was removed
	Starting:  {Running, Stopping, Reporting, Removing},
	Running:   {Stopping, Reporting, Removing},
	Stopping:  {Running, Reporting, Removing}, // Running: it did not stop, and is not to any more
	Asleep:    {Waking, Reporting, Removing},
	Waking:    {Running, Stopping, Reporting, Removing},
	Reporting: {Owing, Asleep, Removing},
	Owing:     {Reporting},
	Removing:  {},
}

// holdsSlot tells whether a task in this phase counts against the number that may run at
// once.
func (p Phase) holdsSlot() bool { return p != Asleep && p != Owing }

// step checks that to may follow from.
func step(from, to Phase) error {
	if slices.Contains(next[from], to) {
		return nil
	}
	return fmt.Errorf("illegal step of a task from %s to %s", from, to)
}
