package stage

import (
	"fmt"
	"syscall"
)

// Killed reports whether the process has ended by SIGKILL, whoever sent it; another end is
// an error. Once it has, the agent can be started again.
func (a *Agent) Killed() (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cmd == nil {
		return true, nil
	}
	select {
	case <-a.done:
	default:
		return false, nil
	}
	state := a.cmd.ProcessState
	a.cmd = nil
	if status, ok := state.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		return true, fmt.Errorf("the agent was not killed: %v", state)
	}
	return true, nil
}
