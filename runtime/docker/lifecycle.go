package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/runtime"
)

// Start ensures the container has been started. One of which Docker lost a run has been, and
// is not started again.
func (r *Runtime) Start(ctx context.Context, id string) error {
	if err := r.start(ctx, id); err != nil {
		return fmt.Errorf("start container %s: %w", id, err)
	}
	return nil
}

func (r *Runtime) start(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	before, err := r.inspect(ctx, id)
	if err != nil || before.State == runtime.StateRunning {
		return err
	}
	if lost, err := r.comeClear(ctx, before); lost || err != nil {
		return err
	}
	failure := r.call(ctx, r.timeouts.Start, func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerStart(ctx, id, client.ContainerStartOptions{})
		return err
	})
	if failure == nil || ctx.Err() != nil {
		return failure
	}
	after, err := r.inspect(ctx, id)
	if err != nil {
		return fmt.Errorf("%w; and then: %w", failure, err)
	}
	if lost, err := r.comeClear(ctx, after); lost || err != nil {
		return err
	}
	switch {
	case after.State == runtime.StateRunning, !after.StartedAt.Equal(before.StartedAt):
		return nil // only the answer was lost
	case unasked(after.StartError),
		errors.Is(failure, runtime.ErrUnavailable) && !cerrdefs.IsInternal(failure),
		errors.Is(failure, runtime.ErrConflict), errors.Is(failure, runtime.ErrNoSpace),
		errors.Is(failure, runtime.ErrDeviceUnavailable):
		return failure
	}
	// With any other answer, be it a 500, the daemon tells what runc or the network
	// said to this container.
	return fmt.Errorf("%w: %s", runtime.ErrStartFailed, cmp.Or(after.StartError, failure.Error()))
}

// comeClear is clear for a caller that is to come back until nothing lives.
func (r *Runtime) comeClear(ctx context.Context, c runtime.Container) (lost bool, err error) {
	lost, err = r.clear(ctx, c)
	if errors.Is(err, runtime.ErrStopTimeout) {
		err = fmt.Errorf("%w: it runs, and Docker does not know: %w", runtime.ErrUnavailable, err)
	}
	return lost, err
}

// Stop has the daemon send the image's stop signal and, after grace rounded up to whole
// seconds, SIGKILL. A daemon that fails at it or does not come back is overtaken.
func (r *Runtime) Stop(ctx context.Context, id string, grace time.Duration) error {
	if err := checkID(id); err != nil {
		return fmt.Errorf("stop container: %w", err)
	}
	// Below zero the daemon would wait for ever.
	seconds := int(math.Ceil(max(grace, 0).Seconds()))
	grace = time.Duration(seconds) * time.Second
	deadline := time.Now().Add(grace + r.timeouts.StopMargin)
	err := r.call(ctx, grace+r.timeouts.StopReply, func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerStop(ctx, id, client.ContainerStopOptions{Timeout: &seconds})
		return err
	})
	if err != nil && ctx.Err() == nil && !errors.Is(err, runtime.ErrNotFound) {
		err = r.forceStop(ctx, id, deadline, err)
	}
	if err != nil {
		return fmt.Errorf("stop container %s: %w", id, err)
	}
	return nil
}

// forceStop ends a container whose stop has failed with cause. It believes nothing but
// the container's state.
func (r *Runtime) forceStop(ctx context.Context, id string, deadline time.Time, cause error) error {
	limit := func() time.Duration { return max(time.Until(deadline), time.Millisecond) }
	killed := r.call(ctx, min(limit(), r.timeouts.Query), func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerKill(ctx, id, client.ContainerKillOptions{Signal: "SIGKILL"})
		return err
	})
	if killed == nil {
		killed = r.call(ctx, limit(), func(ctx context.Context, api *client.Client) error {
			return awaitStop(ctx, api, id)
		})
	}
	now, err := r.Inspect(ctx, id)
	switch {
	case err != nil:
		return fmt.Errorf("%w; and then: %w", cause, err)
	case !now.State.Alive():
		return nil
	case time.Now().Before(deadline):
		// Not stopped and not given the time to: the daemon itself has failed.
		return fmt.Errorf("%w; and then: %w", cause, killed)
	}
	return fmt.Errorf("%w: it is %s %v after its grace: %s", runtime.ErrStopTimeout, now.State, r.timeouts.StopMargin, cause.Error())
}

// Remove kills the container if it runs and removes it with its anonymous volumes.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return fmt.Errorf("remove container: %w", err)
	}
	c, err := r.inspect(ctx, id)
	if err == nil {
		_, err = r.clear(ctx, c) // or Docker would take the files from under what lives
	}
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = r.remove(ctx, id)
	}
	if err == nil {
		err = r.endLeft(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("remove container %s: %w", id, err)
	}
	return nil
}

func (r *Runtime) remove(ctx context.Context, id string) error {
	err := r.removeOnce(ctx, id)
	for _, delay := range retryDelays {
		if !errors.Is(err, runtime.ErrConflict) {
			break
		}
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(delay):
			err = r.removeOnce(ctx, id)
		}
	}
	if err == nil || errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if ctx.Err() == nil {
		now, inspectErr := r.Inspect(ctx, id)
		switch {
		case errors.Is(inspectErr, runtime.ErrNotFound):
			return nil // only the answer was lost
		case inspectErr == nil && now.State == runtime.StateRunning:
			err = fmt.Errorf("%w: %s", runtime.ErrStopTimeout, err.Error())
		}
	}
	return err
}

func (r *Runtime) removeOnce(ctx context.Context, id string) error {
	return r.call(ctx, r.timeouts.Remove, func(ctx context.Context, api *client.Client) error {
		_, err := api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		return err
	})
}
