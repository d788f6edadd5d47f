package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/pathfence"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/agent/wallclock"
	"github.com/heteroflow/node-agent/crashpoint"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// runtime returns the container runtime, waiting for one.
func (t *task) runtime(ctx context.Context) (runtime.Runtime, error) {
	var rt runtime.Runtime
	err := t.persist(ctx, "connect to the container runtime", func(context.Context) (err error) {
		rt, err = t.e.Runtime()
		return err
	})
	return rt, err
}

// The pauses between tries while the container runtime is away.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// persist does op until the container runtime is there to answer: a daemon that restarts
// says nothing about a task. It returns op's own outcome, or why ctx ended.
func (t *task) persist(ctx context.Context, what string, op func(ctx context.Context) error) error {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := op(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !errors.Is(err, runtime.ErrUnavailable) {
			return err
		}
		if pause == firstPause {
			t.log.Warn("container runtime away, trying until it answers", zap.String("action", what), zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func (t *task) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return errDetached
	case <-time.After(d):
		return nil
	}
}

func (t *task) inspect(ctx context.Context, rt runtime.Runtime) (runtime.Container, error) {
	var c runtime.Container
	which := t.container
	if which == "" {
		which = taskcontainer.Name(t.id)
	}
	err := t.persist(ctx, "inspect the container", func(ctx context.Context) (err error) {
		c, err = rt.Inspect(ctx, which)
		return err
	})
	if ctx.Err() != nil {
		return c, errDetached
	}
	return c, err
}

// start starts the container, whose last run started at lastRun; zero: it never ran. From
// the moment it is tried the task counts as having run. A start whose answer was lost may
// have been the program's only run, and over by now: it is not started once more.
func (t *task) start(ctx context.Context, rt runtime.Runtime, lastRun time.Time) error {
	if err := t.reserve(ctx, rt); err != nil {
		return err
	}
	if err := t.ready(ctx); err != nil {
		return err
	}
	if err := t.expectAgain(); err != nil {
		return err
	}
	t.remember(func(r *Record) { r.Started, r.Verdict, r.Why, r.Begun = true, "", "", t.begins() })
	t.sight = sight{}
	crashpoint.Reach("start: recorded")
	err := t.persist(ctx, "start the container", func(ctx context.Context) error {
		c, err := rt.Inspect(ctx, t.container)
		if err != nil || c.State == runtime.StateRunning || !c.StartedAt.Equal(lastRun) {
			return err
		}
		return t.startOnce(ctx, rt)
	})
	crashpoint.Reach("start: done")
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case errors.Is(err, pathfence.ErrChanged):
		return fail(protocol.ReasonVolumeDenied, err)
	case errors.Is(err, runtime.ErrNotFound):
		return fail(protocol.ReasonContainerLost, err)
	case errors.Is(err, runtime.ErrDeviceUnavailable):
		return fail(protocol.ReasonGPUUnavailable, err)
	default:
		return fail(protocol.ReasonStartFailed, err)
	}
}

// startOnce starts the container, where the runtime can hold its program back only if it
// has the volumes that passed the fence. What cannot be looked into is started, and looked
// into while it runs.
func (t *task) startOnce(ctx context.Context, rt runtime.Runtime) error {
	gated, ok := rt.(runtime.Gated)
	if !ok || t.record.Expect == nil {
		return rt.Start(ctx, t.container)
	}
	return gated.StartIf(ctx, t.container, func(pid int) error {
		if err := t.record.Expect.VerifyVolumes(pid); errors.Is(err, pathfence.ErrChanged) && !over(pid) {
			return err
		}
		return nil
	})
}

// stopRetry is the pause before another try at stopping what would not die.
const stopRetry = 30 * time.Second

// stop ends the container's process and waits for that. A process that cannot be killed
// keeps its owner here, and with it everything the task holds.
func (t *task) stop(ctx context.Context, rt runtime.Runtime, c runtime.Container) (stopped bool, err error) {
	t.enter(Stopping)
	t.log.Info("stopping container", logging.ContainerID(c.ID), zap.String("why", t.whyStopped()), zap.Duration("grace", t.grace()))
	crashpoint.Reach("stop: decided")
	err = t.persist(ctx, "stop the container", func(ctx context.Context) error {
		return rt.Stop(ctx, c.ID, t.grace())
	})
	crashpoint.Reach("stop: done")
	switch {
	case err == nil, errors.Is(err, runtime.ErrNotFound):
		return true, nil
	case ctx.Err() != nil:
		return false, errDetached
	}
	t.log.Error("container does not stop; its GPUs stay reserved, trying again", logging.ContainerID(c.ID), logging.Reason(protocol.ReasonStopTimeout), zap.Error(err))
	t.setHealth(protocol.TaskHealth{State: protocol.HealthUnhealthy, Since: new(wallclock.Now()), Message: fmt.Sprintf("%s: %v", protocol.ReasonStopTimeout, err)})
	return false, t.pause(ctx, stopRetry)
}

// grace is what the program may take to end. One that has what it must not have gets none.
func (t *task) grace() time.Duration {
	if t.record.Verdict == protocol.ReasonVolumeDenied {
		return 0
	}
	return t.supervision.Grace
}

func (t *task) whyStopped() string {
	if t.record.Verdict != "" {
		return string(t.record.Verdict)
	}
	v := t.viewNow()
	if v.over != "" {
		return v.over
	}
	return "the control plane says " + string(v.status)
}

// removeAttempts bounds the tries at removing a container: a busy mount often goes away
// within seconds, and what does not is found again by reconciliation, see [leftovers].
const removeAttempts = 5

// remove takes the task's container away, now that nothing is owed for it, and forgets
// the task. It removes by name, so that a container whose creation was never answered
// goes too, and only what carries this assignment's labels.
func (t *task) remove(ctx context.Context) error {
	t.enter(Removing)
	rt, err := t.runtime(ctx)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		err := t.persist(ctx, "remove the container", func(ctx context.Context) error { return t.removeOnce(ctx, rt) })
		switch {
		case err == nil:
			t.e.leftovers.drop(t.id)
			if err := t.e.records.Delete(t.id); err != nil {
				t.log.Warn("record not dropped from the journal", zap.Error(err))
			}
			crashpoint.Reach("remove: forgotten")
			return nil
		case ctx.Err() != nil:
			return errDetached
		case attempt == removeAttempts:
			again := t.e.leftovers.add(t.id, time.Now())
			return fmt.Errorf("remove container %s, which is tried again in %s: %w", taskcontainer.Name(t.id), again, err)
		}
		if err := t.pause(ctx, time.Duration(attempt)*firstPause); err != nil {
			return err
		}
	}
}

func (t *task) removeOnce(ctx context.Context, rt runtime.Runtime) error {
	c, err := rt.Inspect(ctx, taskcontainer.Name(t.id))
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if id, err := taskcontainer.Identify(c, t.e.NodeID); err != nil {
		t.log.Warn("container with the task's name left alone: it is somebody else's", logging.ContainerID(c.ID), zap.Error(err))
		return nil
	} else if id.Generation != t.generation {
		return nil // another assignment's, with an owner of its own
	}
	crashpoint.Reach("remove: decided")
	if err := rt.Remove(ctx, c.ID); err != nil {
		return err
	}
	crashpoint.Reach("remove: done")
	t.log.Info("container removed", logging.ContainerID(c.ID))
	return nil
}
