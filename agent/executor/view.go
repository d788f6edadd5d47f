package executor

import "github.com/heteroflow/node-agent/protocol"

// view is what the control plane says of a task: a status, or that the task is no
// business of this node any more.
type view struct {
	status protocol.TaskStatus
	over   string // why nothing is owed to it any more, as a fact; empty: something may be
}

// The facts by which a task is over for this node.
const (
	overTerminal = "it is over at the control plane"
	overDeleted  = "it was deleted at the control plane"
	overMoved    = "it was assigned anew"
)

// viewOf reads the control plane's answer about a task for one assignment of it to a node.
// An empty node id says nothing.
func viewOf(t protocol.Task, nodeID string, generation int64) view {
	v := view{status: t.Status}
	switch {
	case t.NodeID != "" && t.NodeID != nodeID, t.Generation > generation:
		v.over = overMoved
	case t.Status.Terminal():
		v.over = overTerminal
	}
	return v
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
