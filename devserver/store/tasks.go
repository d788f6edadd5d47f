package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

const taskColumns = "status, node_id, generation, spec, outcome, created_at, updated_at"

// row is anything that can be scanned once.
type row interface{ Scan(dest ...any) error }

func scanTask(r row) (operator.Task, error) {
	var (
		t                operator.Task
		spec, outcome    []byte
		created, updated int64
		status, nodeID   string
		generation       int64
	)
	if err := r.Scan(&status, &nodeID, &generation, &spec, &outcome, &created, &updated); err != nil {
		return t, err
	}
	if err := json.Unmarshal(spec, &t.Task); err != nil {
		return t, fmt.Errorf("decode stored task: %w", err)
	}
	if err := json.Unmarshal(outcome, &t.Outcome); err != nil {
		return t, fmt.Errorf("decode stored outcome: %w", err)
	}
	t.Status, t.NodeID, t.Generation = protocol.TaskStatus(status), nodeID, generation
	t.CreatedAt, t.UpdatedAt = fromStamp(created), fromStamp(updated)
	return t, nil
}

// CreateTask stores a task in the status, on the node and with the generation
// it carries. ErrExists: its id is taken.
func (s *Store) CreateTask(ctx context.Context, t protocol.Task) (operator.Task, error) {
	spec, err := json.Marshal(t)
	if err != nil {
		return operator.Task{}, fmt.Errorf("encode task %s: %w", t.ID, err)
	}
	var created operator.Task
	err = s.writeFor(ctx, func(tx *sql.Tx) ([]string, error) {
		const q = `INSERT INTO tasks (id, status, node_id, generation, spec, created_at, updated_at)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) ON CONFLICT (id) DO NOTHING RETURNING ` + taskColumns
		var err error
		created, err = scanTask(tx.QueryRowContext(ctx, q, t.ID, t.Status, t.NodeID, t.Generation, string(spec), now()))
		if errors.Is(err, sql.ErrNoRows) {
			return nil, ErrExists
		}
		if err != nil {
			return nil, err
		}
		if err := note(ctx, tx, created, operator.EventCreated, ""); err != nil {
			return nil, err
		}
		if t.NodeID == "" || t.Status != protocol.StatusScheduled {
			return nil, nil
		}
		_, err = bump(ctx, tx, t.NodeID)
		return []string{t.NodeID}, err
	})
	if err != nil {
		return operator.Task{}, fmt.Errorf("create task %s: %w", t.ID, err)
	}
	return created, nil
}

// Task returns one task, or ErrNotFound.
func (s *Store) Task(ctx context.Context, id string) (operator.Task, error) {
	return findTask(ctx, s.r, id)
}

// querier is the part of a database or transaction that reads one row.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func findTask(ctx context.Context, q querier, id string) (operator.Task, error) {
	t, err := scanTask(q.QueryRowContext(ctx, "SELECT "+taskColumns+" FROM tasks WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return operator.Task{}, fmt.Errorf("read task %s: %w", id, err)
	}
	return t, nil
}

// Tasks lists tasks, oldest first: those of one node, or of all when nodeID
// is empty; those in one of the statuses, or in any when there is none.
func (s *Store) Tasks(ctx context.Context, nodeID string, statuses []protocol.TaskStatus, limit int) ([]operator.Task, error) {
	q := "SELECT " + taskColumns + " FROM tasks WHERE 1"
	var args []any
	if nodeID != "" {
		q += " AND node_id = ?"
		args = append(args, nodeID)
	}
	if len(statuses) > 0 {
		q += " AND status IN (" + placeholders(len(statuses)) + ")"
		for _, status := range statuses {
			args = append(args, status)
		}
	}
	rows, err := s.r.QueryContext(ctx, q+" ORDER BY seq LIMIT ?", append(args, limit)...)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	tasks, err := collect(rows, func(r *sql.Rows) (operator.Task, error) { return scanTask(r) })
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	return tasks, nil
}

// UpdateTask is a node's compare-and-set. It is one statement: it changes the
// row only where status, node and generation are what the node believes.
// *ConflictError: they are not. ErrNotFound: there is no such task.
func (s *Store) UpdateTask(ctx context.Context, id string, u protocol.TaskUpdate) (operator.Task, error) {
	if !protocol.AgentCanTransition(u.FromStatus, u.Status) {
		return operator.Task{}, &IllegalTransitionError{From: string(u.FromStatus), To: string(u.Status)}
	}
	outcome, err := json.Marshal(outcomeOf(u))
	if err != nil {
		return operator.Task{}, fmt.Errorf("encode outcome of task %s: %w", id, err)
	}
	var updated operator.Task
	err = s.write(ctx, func(tx *sql.Tx) error {
		const q = `UPDATE tasks SET status = ?1, outcome = json_patch(outcome, ?2), updated_at = ?3
			WHERE id = ?4 AND status = ?5 AND node_id = ?6 AND (?7 IS NULL OR generation = ?7)
			RETURNING ` + taskColumns
		var err error
		updated, err = scanTask(tx.QueryRowContext(ctx, q, u.Status, string(outcome), now(), id, u.FromStatus, u.NodeID, u.Generation))
		if errors.Is(err, sql.ErrNoRows) {
			return conflict(ctx, tx, id, u)
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM intents WHERE node_id = ? AND task_id = ?`, u.NodeID, id); err != nil {
			return err
		}
		return note(ctx, tx, updated, operator.EventNode, u.FromStatus)
	})
	if err != nil {
		return operator.Task{}, fmt.Errorf("update task %s: %w", id, err)
	}
	return updated, nil
}

// conflict says why nothing was updated.
func conflict(ctx context.Context, tx *sql.Tx, id string, u protocol.TaskUpdate) error {
	stored, err := findTask(ctx, tx, id)
	if err != nil {
		return err
	}
	var why string
	switch {
	case stored.NodeID != u.NodeID:
		why = fmt.Sprintf("belongs to node %q, not %q", stored.NodeID, u.NodeID)
	case stored.Status != u.FromStatus:
		why = fmt.Sprintf("is %s, not %s", stored.Status, u.FromStatus)
	default:
		why = fmt.Sprintf("is in generation %d, not %d", stored.Generation, *u.Generation)
	}
	return &ConflictError{Message: fmt.Sprintf("task %s %s", id, why), Task: &stored.Task}
}

func outcomeOf(u protocol.TaskUpdate) operator.Outcome {
	return operator.Outcome{
		ContainerID: u.ContainerID, StartedAt: u.StartedAt, FinishedAt: u.FinishedAt, ExitCode: u.ExitCode,
		Reason: u.Reason, ErrorMessage: u.ErrorMessage, OOMKilled: u.OOMKilled, LogTail: u.LogTail,
	}
}

// SetCheckpointResume keeps what a node's checkpoint probe decided. It does
// not change the task's status. *ConflictError: the task is another node's.
func (s *Store) SetCheckpointResume(ctx context.Context, id string, c protocol.CheckpointResume) error {
	patch, err := json.Marshal(operator.Outcome{CheckpointResume: &c})
	if err != nil {
		return fmt.Errorf("encode checkpoint decision of task %s: %w", id, err)
	}
	err = s.write(ctx, func(tx *sql.Tx) error {
		const q = `UPDATE tasks SET outcome = json_patch(outcome, ?), updated_at = ?
			WHERE id = ? AND node_id = ? RETURNING ` + taskColumns
		t, err := scanTask(tx.QueryRowContext(ctx, q, string(patch), now(), id, c.NodeID))
		if errors.Is(err, sql.ErrNoRows) {
			return conflict(ctx, tx, id, protocol.TaskUpdate{NodeID: c.NodeID})
		}
		if err != nil {
			return err
		}
		return note(ctx, tx, t, operator.EventCheckpoint, t.Status)
	})
	if err != nil {
		return fmt.Errorf("keep checkpoint decision of task %s: %w", id, err)
	}
	return nil
}

// note adds a step to the task's timeline.
func note(ctx context.Context, tx *sql.Tx, t operator.Task, kind operator.EventKind, from protocol.TaskStatus) error {
	reason := t.Outcome.Reason
	if kind != operator.EventNode {
		reason = ""
	}
	const q = `INSERT INTO events (task_id, at, kind, from_status, to_status, node_id, generation, reason)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	if _, err := tx.ExecContext(ctx, q, t.ID, now(), kind, from, t.Status, t.NodeID, t.Generation, reason); err != nil {
		return fmt.Errorf("note step of task %s: %w", t.ID, err)
	}
	return nil
}

// History returns the task's timeline, or ErrNotFound.
func (s *Store) History(ctx context.Context, id string) ([]operator.Event, error) {
	const q = `SELECT at, kind, from_status, to_status, node_id, generation, reason FROM events WHERE task_id = ? ORDER BY seq`
	rows, err := s.r.QueryContext(ctx, q, id)
	if err != nil {
		return nil, fmt.Errorf("read history of task %s: %w", id, err)
	}
	events, err := collect(rows, func(r *sql.Rows) (operator.Event, error) {
		var e operator.Event
		var at int64
		err := r.Scan(&at, &e.Kind, &e.From, &e.To, &e.NodeID, &e.Generation, &e.Reason)
		e.At = fromStamp(at)
		return e, err
	})
	if err == nil && len(events) == 0 { // every task has at least its creation
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read history of task %s: %w", id, err)
	}
	return events, nil
}
