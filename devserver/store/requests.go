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

// requestColumns begin with the request as its node reads it: the columns
// decide over what the stored JSON says of them.
const requestColumns = `json_set(spec, '$.id', id, '$.node_id', node_id, '$.status', status),
	id, channel, node_id, status, result, reason, error_message, created_at, updated_at`

func scanRequest(r row) (operator.RequestState, error) {
	var (
		s                operator.RequestState
		spec, result     []byte
		created, updated int64
	)
	err := r.Scan(&spec, &s.ID, &s.Channel, &s.NodeID, &s.Status, &result, &s.Reason, &s.ErrorMessage, &created, &updated)
	s.Spec = spec
	if len(result) > 0 {
		s.Result = result
	}
	s.CreatedAt, s.UpdatedAt = fromStamp(created), fromStamp(updated)
	return s, err
}

// CreateRequest stores a pending request and tells its node. spec is its JSON.
func (s *Store) CreateRequest(ctx context.Context, channel protocol.Channel, head protocol.Request, spec json.RawMessage) (operator.RequestState, error) {
	var created operator.RequestState
	err := s.writeFor(ctx, func(tx *sql.Tx) ([]string, error) {
		const q = `INSERT INTO requests (channel, id, node_id, status, spec, created_at, updated_at)
			VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6) ON CONFLICT (channel, id) DO NOTHING RETURNING ` + requestColumns
		var err error
		created, err = scanRequest(tx.QueryRowContext(ctx, q, channel, head.ID, head.NodeID, protocol.RequestPending, string(spec), now()))
		if errors.Is(err, sql.ErrNoRows) {
			return nil, ErrExists
		}
		if err != nil {
			return nil, err
		}
		_, err = bump(ctx, tx, head.NodeID)
		return []string{head.NodeID}, err
	})
	if err != nil {
		return operator.RequestState{}, fmt.Errorf("create %s request %s: %w", channel, head.ID, err)
	}
	return created, nil
}

// Request returns one request, or ErrNotFound.
func (s *Store) Request(ctx context.Context, channel protocol.Channel, id string) (operator.RequestState, error) {
	return findRequest(ctx, s.r, channel, id)
}

func findRequest(ctx context.Context, q querier, channel protocol.Channel, id string) (operator.RequestState, error) {
	const query = "SELECT " + requestColumns + " FROM requests WHERE channel = ? AND id = ?"
	state, err := scanRequest(q.QueryRowContext(ctx, query, channel, id))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err != nil {
		return operator.RequestState{}, fmt.Errorf("read %s request %s: %w", channel, id, err)
	}
	return state, nil
}

// Requests lists requests of a channel, oldest first; an empty node or status
// means any.
func (s *Store) Requests(ctx context.Context, channel protocol.Channel, nodeID string, status protocol.RequestStatus, limit int) ([]operator.RequestState, error) {
	const q = "SELECT " + requestColumns + ` FROM requests
		WHERE channel = ?1 AND (?2 = '' OR node_id = ?2) AND (?3 = '' OR status = ?3) ORDER BY seq LIMIT ?4`
	rows, err := s.r.QueryContext(ctx, q, channel, nodeID, status, limit)
	if err != nil {
		return nil, fmt.Errorf("list %s requests: %w", channel, err)
	}
	states, err := collect(rows, func(r *sql.Rows) (operator.RequestState, error) { return scanRequest(r) })
	if err != nil {
		return nil, fmt.Errorf("list %s requests: %w", channel, err)
	}
	return states, nil
}

// UpdateRequest is a node's compare-and-set on a request: one statement, as
// UpdateTask.
func (s *Store) UpdateRequest(ctx context.Context, channel protocol.Channel, id string, u protocol.RequestUpdate) (operator.RequestState, error) {
	if !protocol.CanTransitionRequest(u.FromStatus, u.Status) {
		return operator.RequestState{}, &IllegalTransitionError{From: string(u.FromStatus), To: string(u.Status)}
	}
	var updated operator.RequestState
	err := s.write(ctx, func(tx *sql.Tx) error {
		const q = `UPDATE requests SET status = ?, result = ?, reason = ?, error_message = ?, updated_at = ?
			WHERE channel = ? AND id = ? AND status = ? AND node_id = ? RETURNING ` + requestColumns
		var err error
		updated, err = scanRequest(tx.QueryRowContext(ctx, q, u.Status, string(u.Result), u.Reason, u.ErrorMessage, now(),
			channel, id, u.FromStatus, u.NodeID))
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		stored, err := findRequest(ctx, tx, channel, id)
		if err != nil {
			return err
		}
		return &ConflictError{Message: fmt.Sprintf("%s request %s is %s on node %q, not %s on node %q",
			channel, id, stored.Status, stored.NodeID, u.FromStatus, u.NodeID)}
	})
	if err != nil {
		return operator.RequestState{}, fmt.Errorf("update %s request %s: %w", channel, id, err)
	}
	return updated, nil
}

// CancelRequest withdraws a request that nobody has claimed.
func (s *Store) CancelRequest(ctx context.Context, channel protocol.Channel, id string) (operator.RequestState, error) {
	var updated operator.RequestState
	err := s.write(ctx, func(tx *sql.Tx) error {
		const q = `UPDATE requests SET status = ?, updated_at = ? WHERE channel = ? AND id = ? AND status = ? RETURNING ` + requestColumns
		var err error
		updated, err = scanRequest(tx.QueryRowContext(ctx, q, protocol.RequestCancelled, now(), channel, id, protocol.RequestPending))
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		stored, err := findRequest(ctx, tx, channel, id)
		if err != nil {
			return err
		}
		return &IllegalTransitionError{From: string(stored.Status), To: string(protocol.RequestCancelled)}
	})
	if err != nil {
		return operator.RequestState{}, fmt.Errorf("cancel %s request %s: %w", channel, id, err)
	}
	return updated, nil
}
