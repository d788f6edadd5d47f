package executor

import (
	"cmp"
	"time"
	"unicode/utf8"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// Result is how a task ended, as the journal keeps it until the control plane has it.
type Result struct {
	TaskID      string          `json:"task_id"`
	Generation  int64           `json:"generation"`
	ContainerID string          `json:"container_id,omitempty"` // empty: none was made
	Success     bool            `json:"success"`                // completed, not failed
	Reason      protocol.Reason `json:"reason"`
	Message     string          `json:"message,omitempty"`
	ExitCode    *int            `json:"exit_code,omitempty"` // nil: none, or not known
	OOMKilled   *bool           `json:"oom_killed,omitempty"`
	StartedAt   *time.Time      `json:"started_at,omitempty"`
	FinishedAt  *time.Time      `json:"finished_at,omitempty"`
}

// ended is the result of a container that ended by itself.
func ended(c runtime.Container) Result {
	r := Result{ContainerID: c.ID, Reason: protocol.ReasonExited, StartedAt: timeOrNil(c.StartedAt)}
	if c.Exit == nil {
		r.Reason = protocol.ReasonExitUnknown
		r.Message = "the container is not running and the runtime does not know how it ended"
		return r
	}
	r.ExitCode, r.OOMKilled = c.Exit.Code, &c.Exit.OOMKilled
	if at := c.Exit.FinishedAt; !at.IsZero() {
		r.FinishedAt = new(later(at, c.StartedAt)) // the clock may have been set back in between
	}
	r.Message = c.Exit.Message
	switch {
	case c.Exit.Code == nil:
		r.Reason = protocol.ReasonExitUnknown
		r.Message = cmp.Or(r.Message, "the runtime lost the exit code")
	case *c.Exit.Code == 0:
		// Also when a child was killed for memory: the program itself coped.
		r.Success = true
	case c.Exit.OOMKilled:
		r.Reason = protocol.ReasonOOMKilled
		r.Message = "the kernel killed a process of the container for exceeding its memory limit"
	}
	return r
}

// overruled is the result of a container that the agent ended for a reason of its own.
func (r Result) overruled(reason protocol.Reason, message string) Result {
	r.Success, r.Reason, r.Message = false, reason, message
	if reason == protocol.ReasonTimeout {
		r.ExitCode = new(protocol.ExitCodeTimeout)
	}
	return r
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// report is what a result asks the control plane for, given the status stored there. ok is
// false where an agent has nothing to say to that status.
func (r Result) report(stored protocol.TaskStatus) (to protocol.TaskStatus, ok bool) {
	switch stored {
	case protocol.StatusRunning:
		if r.Success {
			return protocol.StatusCompleted, true
		}
		return protocol.StatusFailed, true
	case protocol.StatusStopping:
		return protocol.StatusStopped, true
	case protocol.StatusSleeping:
		return protocol.StatusAsleep, true
	case protocol.StatusWaking:
		return protocol.StatusRunning, true // and from there to how it ended
	default:
		return "", false
	}
}

// update is the body of that report.
func (r Result) update(from, to protocol.TaskStatus, logTail string) protocol.TaskUpdate {
	u := protocol.TaskUpdate{FromStatus: from, Status: to, Generation: &r.Generation, ContainerID: r.ContainerID}
	if to == protocol.StatusRunning {
		return u // the wake of a container that then ended
	}
	u.StartedAt, u.FinishedAt = r.StartedAt, r.FinishedAt
	u.ExitCode, u.OOMKilled = r.ExitCode, r.OOMKilled
	u.Reason, u.ErrorMessage = r.Reason, clip(r.Message, protocol.MaxErrorMessageBytes)
	u.LogTail = logTail
	if to == protocol.StatusStopped && r.Reason == protocol.ReasonExited {
		u.Reason = protocol.ReasonStopped
	}
	return u
}

// clip keeps the beginning of s within n bytes, whole characters only.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
