package executor

import (
	"time"

	"github.com/heteroflow/node-agent/protocol"
)

// view is what the control plane says of a task: a status, or that the task is no
// business of this node any more.
type view struct {
	status protocol.TaskStatus
	over   string // why nothing is owed to it any more, as a fact; empty: something may be
	// asked: somebody asked for this end, of a task that was this node's. Without that a
	// fact may be one that has not reached all of the control plane yet.
	asked   bool
	here    bool // it is about this very assignment
	earlier bool // it is about one before this
}

// The facts by which a task is over for this node.
const (
	overTerminal  = "it is over at the control plane"
	overCancelled = "it was cancelled at the control plane"
	overDeleted   = "it was deleted at the control plane"
	overMoved     = "it was given to another node"
	overAnew      = "it was given to this node once more"
)

// viewOf reads the control plane's answer about a task for one assignment of it to a node.
// An empty node id says nothing.
func viewOf(t protocol.Task, nodeID string, generation int64) view {
	v := view{
		status: t.Status,
		here:   t.NodeID == nodeID && t.Generation == generation, earlier: t.Generation < generation,
	}
	switch {
	case t.NodeID != "" && t.NodeID != nodeID:
		v.over = overMoved
	case t.Generation > generation:
		v.over, v.asked = overAnew, true
	case t.Status == protocol.StatusCancelled:
		v.over, v.asked = overCancelled, !v.earlier
	case t.Status.Terminal():
		v.over = overTerminal
	}
	return v
}

// counts tells whether the owner of a container is to go by this view already: what nobody
// asked for ends no container younger than minAge. made is when the container was made, with
// a monotonic reading; zero: there is none yet, and a launch goes by all but old news.
func (v view) counts(made time.Time, minAge time.Duration) bool {
	switch {
	case v.over == "" || v.asked:
		return true
	case made.IsZero():
		return !v.earlier
	default:
		return time.Since(made) >= minAge
	}
}

// want is what is to become of a task's container.
type want int

const (
	wantRun     want = iota // go on
	wantSleep               // stop it and keep it
	wantStop                // stop it and report
	wantNothing             // stop and remove it; nobody waits for a report
)

// ends tells whether the container is to go.
func (w want) ends() bool { return w == wantStop || w == wantNothing }

// demands tells whether the control plane waits for this node to do something.
func (v view) demands() bool {
	switch v.status {
	case protocol.StatusStopping, protocol.StatusSleeping, protocol.StatusWaking:
		return true
	default:
		return v.over != ""
	}
}

// wakes tells whether a task that is asleep is to be woken.
func (v view) wakes() bool { return v.status == protocol.StatusWaking && v.over == "" }

// wants is what the view asks for. A status this version does not know asks for nothing
// new.
func (v view) wants(now want) want {
	if v.over != "" {
		return wantNothing
	}
	switch v.status {
	case protocol.StatusRunning, protocol.StatusWaking:
		return wantRun
	case protocol.StatusSleeping, protocol.StatusAsleep:
		return wantSleep
	case protocol.StatusStopping:
		return wantStop
	default:
		return now
	}
}
