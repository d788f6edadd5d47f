package docker

import (
	"context"
	"fmt"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/runtime"
)

// Wait blocks until the container has stopped and returns how it ended. What the daemon
// answers is only taken as a sign to inspect: it has no word on memory, and for a
// container that never ran it says 0 or the error of its start.
func (r *Runtime) Wait(ctx context.Context, id string) (runtime.Exit, error) {
	exit, err := r.wait(ctx, id)
	if err != nil {
		return runtime.Exit{}, fmt.Errorf("wait for container %s: %w", id, err)
	}
	return exit, nil
}

func (r *Runtime) wait(ctx context.Context, id string) (runtime.Exit, error) {
	if err := checkID(id); err != nil {
		return runtime.Exit{}, err
	}
	for {
		err := r.call(ctx, 0, func(ctx context.Context, api *client.Client) error {
			return awaitStop(ctx, api, id)
		})
		if err != nil {
			return runtime.Exit{}, err
		}
		now, err := r.Inspect(ctx, id)
		switch {
		case err != nil:
			return runtime.Exit{}, err
		case now.Exit != nil:
			return *now.Exit, nil
		case now.State != runtime.StateRunning && now.State != runtime.StatePaused:
			return runtime.Exit{}, fmt.Errorf("%w: it does not run and has not ended: %s", runtime.ErrConflict, now.State)
		}
		// It has been started again meanwhile.
	}
}

// awaitStop returns once the container does not run.
func awaitStop(ctx context.Context, api *client.Client, id string) error {
	// The client's goroutine ends only when one of the two is received, which the end
	// of ctx brings about as well.
	waiting := api.ContainerWait(ctx, id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-waiting.Result:
		return nil
	case err := <-waiting.Error:
		return err
	}
}
