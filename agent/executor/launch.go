package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/crashpoint"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

func fail(reason protocol.Reason, err error) error {
	return &taskcontainer.RefusedError{Reason: reason, Err: err}
}

// launch takes the task to a container to supervise. When it does not, the result says how
// the task ended, nil that nobody waits to hear; an error leaves it for later.
func (t *task) launch(parent context.Context) (launched bool, result *Result, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	t.abandonable(cancel)
	defer t.abandonable(nil)

	begun := time.Now()
	err = t.launchSteps(ctx)
	failed, isFailure := errors.AsType[*taskcontainer.RefusedError](err)
	switch {
	case err == nil:
		t.log.Info("task started", logging.ContainerID(t.container), logging.Took(time.Since(begun)))
		return true, nil, nil
	case parent.Err() != nil:
		return false, nil, errDetached
	case errors.Is(err, errUnwanted) && t.container != "":
		return true, nil, nil // it may run: the start was interrupted, not undone
	case errors.Is(err, errUnwanted) && t.wanted() == wantNothing:
		return false, nil, nil
	case errors.Is(err, errUnwanted):
		return false, neverStarted(""), nil
	case isFailure:
		t.log.Warn("task could not be launched", logging.Reason(failed.Reason), zap.Error(err))
		return false, &Result{ContainerID: t.container, Reason: failed.Reason, Message: err.Error()}, nil
	default:
		return false, nil, err
	}
}

func (t *task) launchSteps(ctx context.Context) error {
	blueprint, err := t.plan(ctx)
	if err != nil {
		return err
	}
	t.supervision = blueprint.Supervision
	rt, err := t.runtime(ctx)
	if err != nil {
		return err
	}
	if err := t.reserve(ctx, rt); err != nil {
		return err
	}
	if err := t.createFromImage(ctx, rt, blueprint); err != nil {
		return err
	}
	crashpoint.Reach("launch: created")
	t.enter(Starting)
	return t.start(ctx, rt, time.Time{})
}

// imageAttempts bounds how often an image is got that somebody removes, as a prune does,
// before the container is made that would keep it.
const imageAttempts = 3

func (t *task) createFromImage(ctx context.Context, rt runtime.Runtime, blueprint taskcontainer.Blueprint) error {
	for attempt := 1; ; attempt++ {
		t.enter(Pulling)
		if err := t.ensureImage(ctx, rt); err != nil {
			return err
		}
		crashpoint.Reach("launch: image there")
		t.enter(Creating)
		if len(blueprint.Expect.Volumes) > 0 || t.e.Devices != nil {
			t.remember(func(r *Record) { r.Expect = &blueprint.Expect })
		}
		err := t.create(ctx, rt, blueprint.Spec)
		if !errors.Is(err, runtime.ErrNotFound) || attempt == imageAttempts {
			return err
		}
		t.log.Warn("the image was removed before a container was made of it; getting it again", logging.Image(t.spec.Image), zap.Error(err))
	}
}

// create ensures the container exists. A container of an earlier assignment of this very
// task, which this node no longer owes anything for, gives way.
func (t *task) create(ctx context.Context, rt runtime.Runtime, spec runtime.Spec) error {
	var c runtime.Container
	err := t.persist(ctx, "create the container", func(ctx context.Context) (err error) {
		if c, err = rt.Create(ctx, spec); !errors.Is(err, runtime.ErrConflict) {
			return err
		}
		removed, errRemove := t.removeEarlier(ctx, rt)
		if errRemove != nil || !removed {
			return errors.Join(err, errRemove)
		}
		c, err = rt.Create(ctx, spec)
		return err
	})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return err
	case errors.Is(err, runtime.ErrInvalid):
		return fail(protocol.ReasonInvalidSpec, err)
	case errors.Is(err, runtime.ErrDeviceUnavailable):
		return fail(protocol.ReasonGPUUnavailable, err)
	default:
		return fail(protocol.ReasonStartFailed, err)
	}
	t.hasContainer(c.ID, 0)
	for _, warning := range c.Warnings {
		t.log.Warn("the runtime warns about the container", logging.ContainerID(c.ID), zap.String("warning", warning))
	}
	return nil
}

func (t *task) removeEarlier(ctx context.Context, rt runtime.Runtime) (bool, error) {
	c, err := rt.Inspect(ctx, taskcontainer.Name(t.id))
	if err != nil {
		return false, fmt.Errorf("look at the container in the way: %w", err)
	}
	id, err := taskcontainer.Identify(c, t.e.NodeID)
	if err != nil || id.Generation >= t.generation {
		return false, err
	}
	t.log.Info("removing the container of an earlier assignment", logging.ContainerID(c.ID), zap.Int64("earlier_generation", id.Generation))
	return true, rt.Remove(ctx, c.ID)
}
