package runtime

import (
	"net/netip"
	"time"
)

// State is what a container is doing, in words both daemons share.
type State string

// The states. StateUnknown stands for a word this version does not know.
const (
	StateCreated    State = "created"    // made, never started
	StateRunning    State = "running"    // its process lives
	StatePaused     State = "paused"     // frozen by someone else: the agent never pauses
	StateRestarting State = "restarting" // under a restart policy, which the agent never sets
	StateRemoving   State = "removing"   // being removed
	StateExited     State = "exited"     // has run and ended
	StateDead       State = "dead"       // a removal that failed half-way
	StateUnknown    State = "unknown"
)

// Alive reports whether a container in this state may hold a process, and with it
// its GPUs. An unknown state counts as alive.
func (s State) Alive() bool {
	switch s {
	case StateCreated, StateExited, StateDead:
		return false
	case StateRunning, StatePaused, StateRestarting, StateRemoving, StateUnknown:
		return true
	default:
		return true
	}
}

// Container is what a daemon knows of one container.
type Container struct {
	ID        string
	Name      string
	Image     string // the normalised reference it was created from; empty: the daemon no longer knows it
	Labels    map[string]string
	State     State
	CreatedAt time.Time

	StartedAt  time.Time  // zero: never started
	PID        int        // of the first process in the host's pid namespace; 0: not running
	IP         netip.Addr // on the bridge network; invalid when it has no address of its own
	Exit       *Exit      // how it ended; nil unless State is StateExited or StateDead
	StartError string     // why its program could not be executed, in the daemon's words
	Warnings   []string   // what of the spec this host cannot enforce; only from the Create that made it
}

// Exit is how a container ended.
type Exit struct {
	Code       *int      // exit code, 128+n for signal n; nil: the runtime lost it
	OOMKilled  bool      // the kernel killed a process of it for memory, by the cgroup's own count
	FinishedAt time.Time // zero: not known
	Message    string    // the daemon's remark, if any
}
