package executor

import (
	"context"
	"errors"

	"github.com/heteroflow/node-agent/agent/client"
	"github.com/heteroflow/node-agent/agent/logging"
)

// Forget drops the records of tasks that nobody looks after here and that are over: an
// agent has died between the removal of their container and that of their record, or the
// answer to a claim was lost that somebody else won. Only the control plane can say that a
// task is over; what it holds here, or may still give to this node, is kept.
func (e *Executor) Forget(ctx context.Context) error {
	entries, err := e.records.All()
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		if !e.Owns(entry.Key) {
			errs = append(errs, e.forget(ctx, entry.Key, entry.Value))
		}
	}
	return errors.Join(errs...)
}

func (e *Executor) forget(ctx context.Context, id string, record Record) error {
	stored, err := e.Plane.Task(ctx, id)
	gone := errors.Is(err, client.ErrNotFound)
	switch {
	case err != nil && !gone:
		return err
	case !gone && viewOf(stored, e.NodeID, record.Generation).over == "":
		return nil
	}
	e.recording.Lock()
	defer e.recording.Unlock()
	now, ok, err := e.records.Get(id)
	if err != nil || !ok || now.Generation != record.Generation || e.Owns(id) {
		return err // it was claimed anew meanwhile
	}
	e.Log.Info("record of a task that is over dropped", logging.TaskID(id), logging.Generation(record.Generation))
	return e.records.Delete(id)
}
