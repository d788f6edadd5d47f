package store

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/heteroflow/node-agent/protocol"
)

// bump gives the node's change number its next value. The number lives in the
// database so that a cursor stays right over a restart of the server.
func bump(ctx context.Context, tx *sql.Tx, nodeID string) (int64, error) {
	const q = `INSERT INTO changes (node_id, change) VALUES (?, 1)
		ON CONFLICT (node_id) DO UPDATE SET change = change + 1 RETURNING change`
	var change int64
	if err := tx.QueryRowContext(ctx, q, nodeID).Scan(&change); err != nil {
		return 0, fmt.Errorf("count change for node %s: %w", nodeID, err)
	}
	return change, nil
}

// intend notes that the node has to look at a task it holds.
func intend(ctx context.Context, tx *sql.Tx, nodeID, taskID string) error {
	change, err := bump(ctx, tx, nodeID)
	if err != nil {
		return err
	}
	const q = `INSERT INTO intents (node_id, task_id, change) VALUES (?, ?, ?)
		ON CONFLICT (node_id, task_id) DO UPDATE SET change = excluded.change`
	if _, err := tx.ExecContext(ctx, q, nodeID, taskID, change); err != nil {
		return fmt.Errorf("note intent on task %s: %w", taskID, err)
	}
	// A node that never comes back must not grow the table for ever. The bound
	// is far above what one node can hold.
	const prune = `DELETE FROM intents WHERE node_id = ? AND change <= ? - 10000`
	if _, err := tx.ExecContext(ctx, prune, nodeID, change); err != nil {
		return fmt.Errorf("prune intents of node %s: %w", nodeID, err)
	}
	return nil
}

// Waiting is what waits for one node.
type Waiting struct {
	Change  int64 // the node's change number
	Tasks   int
	Intents int // those after the cursor that was asked for
	Files   int
	Slices  int
	Images  int
}

// Change returns the node's change number, 0 for one that never had any.
func (s *Store) Change(ctx context.Context, nodeID string) (int64, error) {
	var change int64
	err := s.r.QueryRowContext(ctx, `SELECT coalesce(max(change), 0) FROM changes WHERE node_id = ?`, nodeID).Scan(&change)
	if err != nil {
		return 0, fmt.Errorf("read change number of node %s: %w", nodeID, err)
	}
	return change, nil
}

// Waiting counts what waits for the node, and the intents noted after cursor.
func (s *Store) Waiting(ctx context.Context, nodeID string, cursor int64) (Waiting, error) {
	const q = `SELECT
		(SELECT coalesce(max(change), 0) FROM changes WHERE node_id = ?1),
		(SELECT count(*) FROM tasks WHERE node_id = ?1 AND status = ?2),
		(SELECT count(*) FROM intents WHERE node_id = ?1 AND change > ?3),
		(SELECT count(*) FROM requests WHERE node_id = ?1 AND channel = ?4 AND status = ?7),
		(SELECT count(*) FROM requests WHERE node_id = ?1 AND channel = ?5 AND status = ?7),
		(SELECT count(*) FROM requests WHERE node_id = ?1 AND channel = ?6 AND status = ?7)`
	var w Waiting
	err := s.r.QueryRowContext(ctx, q, nodeID, protocol.StatusScheduled, cursor,
		protocol.ChannelFiles, protocol.ChannelSlices, protocol.ChannelImages, protocol.RequestPending).
		Scan(&w.Change, &w.Tasks, &w.Intents, &w.Files, &w.Slices, &w.Images)
	if err != nil {
		return Waiting{}, fmt.Errorf("count what waits for node %s: %w", nodeID, err)
	}
	return w, nil
}
