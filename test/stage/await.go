package stage

import (
	"context"
	"fmt"
	"os"
	"syscall"
)

// AwaitDeath waits until the process has ended by SIGKILL, whoever sent it. Afterwards the
// agent can be started again.
func (a *Agent) AwaitDeath(ctx context.Context) error {
	a.mu.Lock()
	cmd, done := a.cmd, a.done
	a.mu.Unlock()
	if cmd == nil {
		return fmt.Errorf("await the agent's death: %w", os.ErrProcessDone)
	}
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("await the agent's death: %w", context.Cause(ctx))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cmd = nil
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("the agent was not killed: %w", a.err)
	}
	return nil
}
