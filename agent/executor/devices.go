package executor

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/lease"
	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// Devices gives tasks the node's cards.
type Devices interface {
	// Resolve says what the cards of a valid task come to in its container on a runtime
	// that says info of itself. A *taskcontainer.RefusedError when one cannot be given.
	Resolve(ctx context.Context, task protocol.Task, info runtime.Info) (taskcontainer.Devices, error)
	// Ready returns nil when a container with the holds can be started, for the first time or
	// again: who shares cards out on the host may have gone since they were resolved. Else a
	// *taskcontainer.RefusedError, or ctx's error.
	Ready(ctx context.Context, holds []lease.Hold) error
	// Verify looks from outside whether the container whose first process is pid got the
	// devices and no others.
	Verify(pid int, devices taskcontainer.Devices) error
}

// resolve finds the task's cards, before anything is made for it. Whether the runtime
// resolves CDI names is asked anew each time: a daemon may have been replaced.
func (t *task) resolve(ctx context.Context) (taskcontainer.Devices, error) {
	wantsCards := len(t.spec.Devices)+len(t.spec.Slices) > 0
	switch {
	case t.e.Devices == nil && wantsCards:
		return taskcontainer.Devices{}, fail(protocol.ReasonGPUUnavailable, errors.New("devices, slices: this agent keeps no inventory of cards"))
	case t.e.Devices == nil:
		return taskcontainer.Devices{}, nil
	}
	var info runtime.Info
	if wantsCards {
		rt, err := t.runtime(ctx)
		if err != nil {
			return taskcontainer.Devices{}, err
		}
		if err := t.persist(ctx, "ask the container runtime about devices", func(ctx context.Context) (err error) {
			info, err = rt.Probe(ctx)
			return err
		}); err != nil {
			return taskcontainer.Devices{}, err
		}
	}
	return t.e.Devices.Resolve(ctx, *t.spec, info)
}

// ready refuses a start without what shares out the task's cards.
func (t *task) ready(ctx context.Context) error {
	if t.e.Devices == nil || len(t.supervision.Holds) == 0 {
		return nil
	}
	return t.e.Devices.Ready(ctx, t.supervision.Holds)
}

// verifyDevices looks at what device nodes a started container has. The error is a
// *taskcontainer.MismatchError.
func (t *task) verifyDevices(pid int, expect []taskcontainer.Node) error {
	if t.e.Devices == nil {
		return nil
	}
	err := t.e.Devices.Verify(pid, taskcontainer.Devices{Holds: t.supervision.Holds, Expect: expect})
	if _, mismatch := errors.AsType[*taskcontainer.MismatchError](err); err == nil || mismatch {
		return err
	}
	t.log.Warn("device nodes of the container could not be verified", logging.ContainerID(t.container), zap.Error(err))
	return nil
}

// reportDevices tells that a container has other device nodes than it was given. It goes
// on: what it can use is up to the device cgroup, and whom it hurts is for people to say.
func (t *task) reportDevices(mismatch error) {
	t.log.Error("the container has other device nodes than it was given", logging.ContainerID(t.container), zap.Error(mismatch))
	t.health.note(mismatch.Error())
}

func (t *task) owner() lease.Owner { return lease.Owner{TaskID: t.id, Generation: t.generation} }

// reserve takes the task's cards before its container can run, and keeps what it has. A
// hold whose container has gone, or has ended, behind the agent's back gives way.
func (t *task) reserve(ctx context.Context, rt runtime.Runtime) error {
	for {
		err := t.e.leases.Reserve(t.owner(), t.supervision.Holds)
		conflict, ok := errors.AsType[*lease.ConflictError](err)
		if !ok {
			return err
		}
		stale, err := t.stale(ctx, rt, conflict.Owner)
		switch {
		case err != nil:
			return fmt.Errorf("reserve cards: %w", err)
		case !stale || !t.e.releaseUnowned(conflict.Owner):
			return fail(protocol.ReasonGPUConflict, conflict)
		}
		t.log.Info("cards of a container that is gone are free again", zap.String("holder", conflict.Owner.TaskID))
	}
}

// stale tells whether a holder that nobody looks after has no live container any more. One
// of an earlier assignment of this very task is removed, as it is when it stands in the
// way of creating the new one.
func (t *task) stale(ctx context.Context, rt runtime.Runtime, holder lease.Owner) (bool, error) {
	if t.e.ownsAssignment(holder) {
		return false, nil
	}
	var c runtime.Container
	err := t.persist(ctx, "look at the container that holds a card", func(ctx context.Context) (err error) {
		c, err = rt.Inspect(ctx, taskcontainer.Name(holder.TaskID))
		return err
	})
	switch {
	case errors.Is(err, runtime.ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	}
	id, err := taskcontainer.Identify(c, t.e.NodeID)
	switch {
	case err != nil, id.Generation != holder.Generation, !c.State.Alive():
		return true, nil //nolint:nilerr // a container that is not the agent's holds no card of its book
	case holder.TaskID == t.id && holder.Generation < t.generation:
		return t.removeEarlier(ctx, rt)
	default:
		return false, nil
	}
}

// release gives up what the task holds of the node: no process of it can be left.
func (t *task) release() {
	t.e.leases.Release(t.owner())
	t.e.shm.End(t.owner())
}

// ownsAssignment reports whether this assignment of a task has an owner.
func (e *Executor) ownsAssignment(o lease.Owner) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.tasks[o.TaskID]
	return t != nil && t.generation == o.Generation
}

// releaseUnowned gives up the cards of an assignment, unless it has got an owner meanwhile.
func (e *Executor) releaseUnowned(o lease.Owner) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.tasks[o.TaskID]; t != nil && t.generation == o.Generation {
		return false
	}
	e.leases.Release(o)
	return true
}
