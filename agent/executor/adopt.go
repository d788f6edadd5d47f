package executor

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/agent/wallclock"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// Adopt gives a container that an earlier agent left an owner, whatever its state. A
// container without this agent's labels is an error and is not touched; one whose task
// has an owner is left to it, and one that has ended and could not be removed is left alone
// for a while.
func (e *Executor) Adopt(c runtime.Container) error {
	id, err := taskcontainer.Identify(c, e.NodeID)
	if err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	if !c.State.Alive() && e.leftovers.waits(id.TaskID, time.Now()) {
		return nil
	}
	t := e.newTask(id.TaskID, id.Generation, Claimed)
	t.hasContainer(c.ID, ageOf(c))
	t.supervision = id.Supervision
	if owed, ok, err := e.results.Get(id.TaskID); err != nil {
		return fmt.Errorf("adopt container %s: %w", c.Name, err)
	} else if ok && owed.Generation == id.Generation && c.State != runtime.StateRunning { // else it is of an earlier run
		t.owed = &owed
	}
	if c.State.Alive() {
		// Before it has an owner: from then on it may be found ended, and its cards free.
		if err := e.leases.Restore(t.owner(), id.Holds); err != nil {
			t.log.Error("two containers run on one card", logging.ContainerID(c.ID), zap.Error(err))
		}
	}
	return e.adopt(t, "container adopted", logging.ContainerID(c.ID), logging.ContainerState(c.State))
}

// ageOf is a container's age by the clock on the wall, which may have been set since it was
// made. One that the runtime knows no time of counts as new.
func ageOf(c runtime.Container) time.Duration {
	if c.CreatedAt.IsZero() {
		return 0
	}
	return max(0, wallclock.Now().Sub(c.CreatedAt))
}

// Resume launches a task that was claimed, perhaps by an earlier agent, and of which
// nothing has run yet. It reports whether the journal knows that to be so.
func (e *Executor) Resume(task protocol.Task) (bool, error) {
	record, ok, err := e.records.Get(task.ID)
	if err != nil || !ok || record.Started || record.Generation != task.Generation {
		return false, err
	}
	t := e.newTask(task.ID, task.Generation, Claimed)
	t.spec, t.known = &task, true
	return true, e.adopt(t, "launch of a claimed task taken up")
}

// Lost reports a task that the control plane has as this node's and that has no container
// here.
func (e *Executor) Lost(task protocol.Task) error {
	return e.owe(Result{
		TaskID: task.ID, Generation: task.Generation, Reason: protocol.ReasonContainerLost,
		Message: "the task's container is not on its node any more",
	}, viewOf(task, e.NodeID, task.Generation))
}

// AdoptResults gives the results that an earlier agent could not deliver, and whose
// container is gone, an owner.
func (e *Executor) AdoptResults() error {
	entries, err := e.results.All()
	if err != nil {
		return fmt.Errorf("adopt undelivered results: %w", err)
	}
	for _, entry := range entries {
		if err := e.owe(entry.Value, view{status: protocol.StatusRunning}); err != nil {
			return err
		}
	}
	return nil
}

func (e *Executor) owe(r Result, v view) error {
	t := e.newTask(r.TaskID, r.Generation, Claimed)
	t.owed, t.container, t.view = &r, r.ContainerID, v
	return e.adopt(t, "result taken over", logging.Reason(r.Reason))
}

func (e *Executor) adopt(t *task, event string, fields ...zap.Field) error {
	switch err := e.take(t); {
	case errors.Is(err, errOwned):
		return nil
	case err != nil:
		return err
	}
	t.log.Info(event, fields...)
	e.followKick.Kick() // what the control plane wants of it may be older than this agent
	return nil
}
