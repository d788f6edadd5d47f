package executor

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/client"
	"github.com/heteroflow/node-agent/protocol"
)

// deletedAfter is how many polls in a row must say 404 before a task counts as deleted.
const deletedAfter = 3

// heldStatuses are those in which a task has an owner here.
var heldStatuses = []protocol.TaskStatus{
	protocol.StatusRunning, protocol.StatusStopping, protocol.StatusSleeping, protocol.StatusAsleep, protocol.StatusWaking,
}

// followPeriod does not relax while a task seems to be over and that is not believed yet:
// nobody tells when to ask again.
func (e *Executor) followPeriod() time.Duration {
	e.mu.Lock()
	missing := len(e.missing)
	e.mu.Unlock()
	if missing > 0 || slices.ContainsFunc(e.owned(), (*task).sparing) {
		return e.Poll.Period
	}
	return e.Poll.period()
}

// followRound reads what the control plane wants of the owned tasks: one list, and a
// question of its own for each task the list does not have.
func (e *Executor) followRound(ctx context.Context) error {
	owned := e.owned()
	if len(owned) == 0 {
		return nil
	}
	listed, err := e.Plane.Tasks(ctx, min(len(owned)+claimLimit, protocol.MaxListLimit), heldStatuses...)
	if err != nil {
		return e.pollFailed("read the state of the running tasks", err)
	}
	byID := make(map[string]protocol.Task, len(listed))
	for _, stored := range listed {
		byID[stored.ID] = stored
	}
	for _, t := range owned {
		if stored, ok := byID[t.id]; ok {
			e.found(t, stored)
			continue
		}
		if err := e.askFor(ctx, t); err != nil {
			return e.pollFailed("read the state of a task", err)
		}
	}
	return nil
}

func (e *Executor) askFor(ctx context.Context, t *task) error {
	stored, err := e.Plane.Task(ctx, t.id)
	switch {
	case errors.Is(err, client.ErrNotFound):
		e.notFound(t)
		return nil
	case err != nil:
		e.mu.Lock()
		delete(e.missing, t.id) // no answer breaks the row
		e.mu.Unlock()
		return err
	}
	e.found(t, stored)
	return nil
}

func (e *Executor) found(t *task, stored protocol.Task) {
	e.mu.Lock()
	delete(e.missing, t.id)
	e.mu.Unlock()
	t.observe(viewOf(stored, e.NodeID, t.generation))
}

func (e *Executor) notFound(t *task) {
	e.mu.Lock()
	e.missing[t.id]++
	times := e.missing[t.id]
	e.mu.Unlock()
	t.log.Info("the control plane does not know the task", zap.Int("times", times), zap.Int("deleted_after", deletedAfter))
	if times >= deletedAfter {
		t.observe(view{over: overDeleted})
	}
}
