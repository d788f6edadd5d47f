package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/heteroflow/node-agent/devserver/cards"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

// Kept is what a node's heartbeats said and later ones may leave out.
type Kept struct {
	InstanceID   string             `json:"instance_id"`
	AgentVersion string             `json:"agent_version"`
	AgentCommit  string             `json:"agent_commit"`
	GPUs         []protocol.Device  `json:"gpus,omitzero"` // nil: never told
	Models       *operator.Models   `json:"models,omitzero"`
	Cards        cards.State        `json:"cards,omitzero"`
	State        protocol.NodeState `json:"state"`
}

// Node is a node's row.
type Node struct {
	NodeID     string
	Drain      bool
	ReceivedAt *time.Time // nil: no heartbeat yet
	Heartbeat  json.RawMessage
	Kept       Kept
	Instances  []operator.Instance
}

// instanceMemory is how long a silent instance is remembered.
const instanceMemory = time.Hour

// Beat stores a heartbeat, creating the node if need be. merge gets the row
// as it was and returns what is to be kept; both happen in one transaction.
func (s *Store) Beat(ctx context.Context, beat protocol.Heartbeat, raw json.RawMessage, merge func(before Node) Kept) (Node, error) {
	var after Node
	err := s.write(ctx, func(tx *sql.Tx) error {
		const ensure = `INSERT INTO nodes (node_id) VALUES (?) ON CONFLICT (node_id) DO NOTHING`
		if _, err := tx.ExecContext(ctx, ensure, beat.NodeID); err != nil {
			return err
		}
		before, err := scanNode(tx.QueryRowContext(ctx, selectNode+" WHERE node_id = ?", beat.NodeID))
		if err != nil {
			return err
		}
		after = before
		after.Kept = merge(before)
		kept, err := json.Marshal(after.Kept)
		if err != nil {
			return fmt.Errorf("encode what is kept: %w", err)
		}
		at := now()
		const update = `UPDATE nodes SET received_at = ?, heartbeat = ?, kept = ? WHERE node_id = ?`
		if _, err := tx.ExecContext(ctx, update, at, string(raw), string(kept), beat.NodeID); err != nil {
			return err
		}
		return seen(ctx, tx, beat, at)
	})
	if err != nil {
		return Node{}, fmt.Errorf("store heartbeat of node %s: %w", beat.NodeID, err)
	}
	return after, nil
}

// seen notes that an instance of the node's agent is alive.
func seen(ctx context.Context, tx *sql.Tx, beat protocol.Heartbeat, at int64) error {
	const q = `INSERT INTO instances (node_id, instance_id, boot_id, first_seen, last_seen) VALUES (?1, ?2, ?3, ?4, ?4)
		ON CONFLICT (node_id, instance_id) DO UPDATE SET last_seen = excluded.last_seen`
	if _, err := tx.ExecContext(ctx, q, beat.NodeID, beat.InstanceID, beat.BootID, at); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM instances WHERE last_seen < ?`, at-instanceMemory.Microseconds())
	return err
}

const selectNode = "SELECT node_id, drain, received_at, heartbeat, kept FROM nodes"

func scanNode(r row) (Node, error) {
	var (
		n               Node
		received        sql.NullInt64
		heartbeat, kept []byte
	)
	if err := r.Scan(&n.NodeID, &n.Drain, &received, &heartbeat, &kept); err != nil {
		return n, err
	}
	if received.Valid {
		n.ReceivedAt = new(fromStamp(received.Int64))
	}
	if len(heartbeat) > 0 {
		n.Heartbeat = heartbeat
	}
	if err := json.Unmarshal(kept, &n.Kept); err != nil {
		return n, fmt.Errorf("decode what is kept: %w", err)
	}
	return n, nil
}

// Nodes lists the nodes by name with their instances.
func (s *Store) Nodes(ctx context.Context) ([]Node, error) {
	rows, err := s.r.QueryContext(ctx, selectNode+" ORDER BY node_id")
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	nodes, err := collect(rows, func(r *sql.Rows) (Node, error) { return scanNode(r) })
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes {
		if nodes[i].Instances, err = s.instances(ctx, nodes[i].NodeID); err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
	}
	return nodes, nil
}

// Node returns one node with its instances, or ErrNotFound.
func (s *Store) Node(ctx context.Context, nodeID string) (Node, error) {
	n, err := scanNode(s.r.QueryRowContext(ctx, selectNode+" WHERE node_id = ?", nodeID))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	if err == nil {
		n.Instances, err = s.instances(ctx, nodeID)
	}
	if err != nil {
		return Node{}, fmt.Errorf("read node %s: %w", nodeID, err)
	}
	return n, nil
}

func (s *Store) instances(ctx context.Context, nodeID string) ([]operator.Instance, error) {
	const q = `SELECT instance_id, boot_id, first_seen, last_seen FROM instances WHERE node_id = ? ORDER BY first_seen`
	rows, err := s.r.QueryContext(ctx, q, nodeID)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(r *sql.Rows) (operator.Instance, error) {
		var in operator.Instance
		var first, last int64
		err := r.Scan(&in.InstanceID, &in.BootID, &first, &last)
		in.FirstSeen, in.LastSeen = fromStamp(first), fromStamp(last)
		return in, err
	})
}

// SetDrain sets whether a node claims new tasks; the node need not have
// beaten yet.
func (s *Store) SetDrain(ctx context.Context, nodeID string, drain bool) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		const q = `INSERT INTO nodes (node_id, drain) VALUES (?, ?) ON CONFLICT (node_id) DO UPDATE SET drain = excluded.drain`
		_, err := tx.ExecContext(ctx, q, nodeID, drain)
		return err
	})
	if err != nil {
		return fmt.Errorf("set drain of node %s: %w", nodeID, err)
	}
	return nil
}
