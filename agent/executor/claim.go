package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/client"
	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/crashpoint"
	"github.com/heteroflow/node-agent/protocol"
)

// claimLimit is how many scheduled tasks one poll asks for.
const claimLimit = 20

// claimPeriod does not relax while the runtime is away: nobody tells when it is back.
func (e *Executor) claimPeriod() time.Duration {
	if !e.RuntimeUsable() {
		return e.Poll.Period
	}
	return e.Poll.period()
}

// claimRound claims as many scheduled tasks as there is room for.
func (e *Executor) claimRound(ctx context.Context) error {
	if e.room() == 0 || !e.RuntimeUsable() {
		return nil
	}
	tasks, err := e.Plane.Tasks(ctx, claimLimit, protocol.StatusScheduled)
	if err != nil {
		return e.pollFailed("look for new tasks", err)
	}
	for _, task := range tasks {
		if !e.beginClaim() {
			return nil
		}
		err := e.claim(ctx, task)
		e.endClaim()
		if err != nil {
			return e.pollFailed("claim", err)
		}
	}
	return nil
}

// claim tries to win one task and gives it an owner. A lost compare-and-set is no error.
// One without an answer may have been won: the record tells reconciliation so.
func (e *Executor) claim(ctx context.Context, task protocol.Task) error {
	log := e.Log.With(logging.TaskID(task.ID), logging.Generation(task.Generation))
	if !protocol.ValidTaskID(task.ID) {
		log.Error("the control plane offers a task with an invalid id; left alone")
		return nil
	}
	if e.Owns(task.ID) {
		return nil // an earlier assignment is being wound up
	}
	crashpoint.Reach("claim: before the record")
	e.recording.Lock()
	err := e.records.Put(task.ID, Record{Generation: task.Generation})
	e.recording.Unlock()
	if err != nil && !errors.Is(err, journal.ErrNotDurable) {
		return fmt.Errorf("claim task %s: %w", task.ID, err)
	}
	crashpoint.Reach("claim: recorded")
	stored, err := e.Plane.UpdateTask(ctx, task.ID, protocol.TaskUpdate{
		FromStatus: protocol.StatusScheduled, Status: protocol.StatusRunning, Generation: &task.Generation,
	})
	switch {
	case err == nil:
		crashpoint.Reach("claim: won")
		log.Info("task claimed", logging.Image(stored.Image))
		return e.launch(stored)
	case errors.Is(err, client.ErrConflict):
		return e.claimLost(ctx, log, task, err)
	case errors.Is(err, client.ErrNotFound):
		log.Info("task was deleted before it was claimed", zap.Error(err))
		return e.records.Delete(task.ID)
	case errors.Is(err, client.ErrRetryable):
		return err
	default: // refused: it was certainly not applied
		return errors.Join(err, e.records.Delete(task.ID))
	}
}

// claimLost finds out who has a task whose claim was refused. It may be this node: what
// stands between it and the control plane may have sent the claim twice.
func (e *Executor) claimLost(ctx context.Context, log *zap.Logger, task protocol.Task, conflict error) error {
	stored, err := e.afterConflict(ctx, task.ID, conflict)
	switch {
	case err != nil && !errors.Is(err, client.ErrNotFound):
		return err
	case err == nil && stored.Status == protocol.StatusRunning && stored.NodeID == e.NodeID && stored.Generation == task.Generation:
		log.Info("task claimed, by a request that was sent twice", logging.Image(stored.Image))
		return e.launch(stored)
	}
	log.Info("task went to somebody else", zap.Error(conflict))
	return e.records.Delete(task.ID)
}

// afterConflict is the task as it is stored, after a lost compare-and-set.
func (e *Executor) afterConflict(ctx context.Context, id string, conflict error) (protocol.Task, error) {
	if e, ok := errors.AsType[*client.Error](conflict); ok && e.Task != nil && e.Task.ID == id && e.Task.Status != "" {
		return *e.Task, nil
	}
	return e.Plane.Task(ctx, id)
}

// launch gives a task that was won its owner. Reconciliation may have been faster.
func (e *Executor) launch(task protocol.Task) error {
	task.NodeID = e.NodeID // the compare-and-set says so, should the answer not
	t := e.newTask(task.ID, task.Generation, Claimed)
	t.spec, t.known = &task, true
	if err := e.take(t); !errors.Is(err, errOwned) {
		return err
	}
	return nil
}

// pollFailed logs what a loop could not do, unless the client has: a refused key is
// logged once, where it is noticed.
func (e *Executor) pollFailed(what string, err error) error {
	if !errors.Is(err, client.ErrUnauthorized) {
		e.Log.Warn("could not "+what, zap.Error(err))
	}
	return err
}
