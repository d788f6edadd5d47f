package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

// target returns the status an action leads to from another, or an
// *IllegalTransitionError.
func target(action operator.Action, from protocol.TaskStatus) (protocol.TaskStatus, error) {
	var to protocol.TaskStatus
	switch action {
	case operator.ActionStop:
		to = protocol.StatusStopping
		if from == protocol.StatusPending || from == protocol.StatusScheduled {
			to = protocol.StatusCancelled // nothing runs that would have to be stopped
		}
	case operator.ActionSleep:
		to = protocol.StatusSleeping
	case operator.ActionWake:
		to = protocol.StatusWaking
	case operator.ActionCancel:
		to = protocol.StatusCancelled
	}
	if !protocol.CanTransition(from, to) {
		return "", &IllegalTransitionError{From: string(from), To: string(to)}
	}
	return to, nil
}

// held reports whether a node has, or may have, a container for a task in
// this status. An unknown status counts as held: rather look once too often.
func held(status protocol.TaskStatus) bool {
	switch status {
	case protocol.StatusPending, protocol.StatusScheduled:
		return false
	default:
		return !status.Terminal()
	}
}

// Steer does what an operator wants of a task and tells the node that holds
// it.
func (s *Store) Steer(ctx context.Context, id string, action operator.Action) (operator.Task, error) {
	return s.operate(ctx, id, func(ctx context.Context, tx *sql.Tx, t operator.Task) (operator.Task, []string, error) {
		to, err := target(action, t.Status)
		if err != nil {
			return t, nil, err
		}
		const q = `UPDATE tasks SET status = ?, updated_at = ? WHERE id = ? RETURNING ` + taskColumns
		after, err := scanTask(tx.QueryRowContext(ctx, q, to, now(), id))
		if err != nil || t.NodeID == "" || !held(t.Status) {
			return after, nil, err
		}
		return after, []string{t.NodeID}, intend(ctx, tx, t.NodeID, id)
	})
}

// Assign gives the task to a node with a new generation, and tells both the
// new node and the one that held it. What an earlier node reported is
// forgotten; the timeline keeps it.
func (s *Store) Assign(ctx context.Context, id, nodeID string) (operator.Task, error) {
	return s.operate(ctx, id, func(ctx context.Context, tx *sql.Tx, t operator.Task) (operator.Task, []string, error) {
		if !protocol.CanTransition(t.Status, protocol.StatusScheduled) {
			return t, nil, &IllegalTransitionError{From: string(t.Status), To: string(protocol.StatusScheduled)}
		}
		const q = `UPDATE tasks SET status = ?, node_id = ?, generation = generation + 1, outcome = '{}', updated_at = ?
			WHERE id = ? RETURNING ` + taskColumns
		after, err := scanTask(tx.QueryRowContext(ctx, q, protocol.StatusScheduled, nodeID, now(), id))
		if err != nil {
			return after, nil, err
		}
		if _, err := bump(ctx, tx, nodeID); err != nil {
			return after, nil, err
		}
		nodes := []string{nodeID}
		if t.NodeID == "" || !held(t.Status) {
			return after, nodes, nil
		}
		return after, append(nodes, t.NodeID), intend(ctx, tx, t.NodeID, id)
	})
}

// operate runs one operator's step on a task and adds it to the timeline.
func (s *Store) operate(ctx context.Context, id string,
	step func(context.Context, *sql.Tx, operator.Task) (operator.Task, []string, error),
) (operator.Task, error) {
	var after operator.Task
	err := s.writeFor(ctx, func(tx *sql.Tx) ([]string, error) {
		before, err := findTask(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		var nodes []string
		if after, nodes, err = step(ctx, tx, before); err != nil {
			return nil, err
		}
		return nodes, note(ctx, tx, after, operator.EventOperator, before.Status)
	})
	if err != nil {
		return operator.Task{}, fmt.Errorf("change task %s: %w", id, err)
	}
	return after, nil
}

// DeleteTask removes a task with its timeline and tells the node that holds
// it.
func (s *Store) DeleteTask(ctx context.Context, id string) error {
	err := s.writeFor(ctx, func(tx *sql.Tx) ([]string, error) {
		t, err := findTask(ctx, tx, id)
		if err != nil {
			return nil, err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM tasks WHERE id = ?`, id); err != nil {
			return nil, err
		}
		if t.NodeID == "" || !held(t.Status) {
			return nil, nil
		}
		return []string{t.NodeID}, intend(ctx, tx, t.NodeID, id)
	})
	if err != nil {
		return fmt.Errorf("delete task %s: %w", id, err)
	}
	return nil
}
