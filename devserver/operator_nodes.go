package devserver

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/devserver/store"
	"github.com/heteroflow/node-agent/protocol"
)

// silence is how long a node may be silent before it counts as offline: three
// heartbeat periods.
const silence = 3 * 5 * time.Second

func (s *Server) registerOperatorNodes(api huma.API) {
	op := func(verb, method, path, summary string, errs ...int) huma.Operation {
		return huma.Operation{
			OperationID: "operator-" + verb, Method: method, Path: "/api/v1/operator/nodes" + path, Summary: summary,
			Tags: []string{tagOperator}, Security: byOperator, Errors: append(errs, 401, 403), SkipValidateBody: true,
		}
	}
	huma.Register(api, op("list-nodes", http.MethodGet, "", "List the nodes by name"), s.listNodes)
	huma.Register(api, op("get-node", http.MethodGet, "/{id}", "Read a node with its last heartbeat", 400, 404), s.getNode)
	drain := op("drain-node", http.MethodPut, "/{id}/drain", "Set whether a node claims new tasks", 400, 422)
	drain.DefaultStatus = http.StatusNoContent
	huma.Register(api, drain, s.drainNode)
}

func (s *Server) listNodes(ctx context.Context, _ *struct{}) (*reply[operator.Nodes], error) {
	stored, err := s.store.Nodes(ctx)
	if err != nil {
		return nil, s.fail(err)
	}
	nodes := operator.Nodes{Nodes: make([]operator.Node, len(stored))}
	for i, n := range stored {
		nodes.Nodes[i] = nodeView(n, time.Now())
	}
	return answer(nodes), nil
}

func (s *Server) getNode(ctx context.Context, in *item) (*reply[operator.Node], error) {
	if err := checkNodeID(in.ID); err != nil {
		return nil, err
	}
	n, err := s.store.Node(ctx, in.ID)
	if err != nil {
		return nil, s.fail(err)
	}
	return answer(nodeView(n, time.Now())), nil
}

func (s *Server) drainNode(ctx context.Context, in *itemWith[operator.Drain]) (*struct{}, error) {
	if err := checkNodeID(in.ID); err != nil {
		return nil, err
	}
	if err := s.store.SetDrain(ctx, in.ID, in.Body.Drain); err != nil {
		return nil, s.fail(err)
	}
	return nil, nil
}

func nodeView(n store.Node, now time.Time) operator.Node {
	view := operator.Node{
		NodeID: n.NodeID, State: stateOf(n, now), Drain: n.Drain, ReceivedAt: n.ReceivedAt,
		Instances: n.Instances, Conflict: conflict(n.Instances, now),
		Heartbeat: n.Heartbeat, GPUs: n.Kept.Cards.List(),
	}
	if n.Kept.Models != nil {
		view.Models = *n.Kept.Models
	}
	return view
}

func stateOf(n store.Node, now time.Time) operator.State {
	switch {
	case n.ReceivedAt == nil:
		return operator.StateUnknown
	case n.Kept.State == protocol.NodeOffline || now.Sub(*n.ReceivedAt) > silence:
		return operator.StateOffline
	case n.Kept.State == protocol.NodeDraining:
		return operator.StateDraining
	default:
		return operator.StateOnline
	}
}

// conflict reports whether two instances beat side by side just now. One that
// ended before the other began was only restarted.
func conflict(instances []operator.Instance, now time.Time) bool {
	for i, a := range instances {
		for _, b := range instances[i+1:] {
			alive := now.Sub(a.LastSeen) <= silence && now.Sub(b.LastSeen) <= silence
			if alive && a.LastSeen.After(b.FirstSeen) && b.LastSeen.After(a.FirstSeen) {
				return true
			}
		}
	}
	return false
}
