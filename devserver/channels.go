package devserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

// request is SliceRequest, ImageRequest or FileRequest.
type request interface{ Header() protocol.Request }

type agentRequestsQuery struct {
	NodeID string `query:"node_id" doc:"The caller's node. Mandatory: 403 without it."`
	Status string `query:"status" doc:"One status. Mandatory: 403 without it."`
	Limit  int    `query:"limit" default:"5" minimum:"1" maximum:"50" doc:"Most requests to return."`
}

type operatorRequestsQuery struct {
	NodeID string `query:"node_id" doc:"Only of this node."`
	Status string `query:"status" doc:"Only in this status."`
	Limit  int    `query:"limit" default:"100" minimum:"1" maximum:"1000" doc:"Most requests to return."`
}

// registerChannel registers both sides of one instruction channel. The server
// checks only to whom a request goes: the agent's own checks must hold against
// any control plane, and this one is there to try them.
func registerChannel[T request](s *Server, api huma.API, channel protocol.Channel) {
	name := string(channel)
	agent, oper := protocol.RequestsPath(channel), "/api/v1/operator/"+name+"-requests"
	op := func(verb, method, path, summary string, tag string, security []map[string][]string, errs ...int) huma.Operation {
		return huma.Operation{
			OperationID: verb + "-" + name + "-request", Method: method, Path: path, Summary: summary,
			Tags: []string{tag}, Security: security, Errors: append(errs, 401, 403),
			MaxBodyBytes: maxRequestBytes, SkipValidateBody: true,
		}
	}
	huma.Register(api, op("poll", http.MethodGet, agent, "List a node's "+name+" requests, oldest first", tagAgent, bySystem, 422),
		func(ctx context.Context, in *agentRequestsQuery) (*reply[protocol.RequestList[T]], error) {
			return pollRequests[T](ctx, s, channel, in)
		})
	huma.Register(api, op("update", http.MethodPut, agent+"/{id}", "Claim a "+name+" request or report its outcome", tagAgent, bySystem, 400, 404, 409, 413, 422),
		func(ctx context.Context, in *itemWith[protocol.RequestUpdate]) (*reply[T], error) {
			return updateRequest[T](ctx, s, channel, in.ID, in.Body)
		})
	huma.Register(api, op("create", http.MethodPost, oper, "Create a "+name+" request", tagOperator, byOperator, 409, 422),
		func(ctx context.Context, in *struct{ Body T }) (*reply[operator.RequestState], error) {
			return createRequest(ctx, s, channel, in.Body)
		})
	huma.Register(api, op("list", http.MethodGet, oper, "List "+name+" requests, oldest first", tagOperator, byOperator, 422),
		func(ctx context.Context, in *operatorRequestsQuery) (*reply[operator.Requests], error) {
			return s.listRequests(ctx, channel, in)
		})
	huma.Register(api, op("get", http.MethodGet, oper+"/{id}", "Read a "+name+" request", tagOperator, byOperator, 400, 404),
		func(ctx context.Context, in *item) (*reply[operator.RequestState], error) {
			return s.requestState(in.ID, func() (operator.RequestState, error) { return s.store.Request(ctx, channel, in.ID) })
		})
	huma.Register(api, op("cancel", http.MethodPost, oper+"/{id}/cancel", "Withdraw a "+name+" request that nobody has claimed", tagOperator, byOperator, 400, 404, 422),
		func(ctx context.Context, in *item) (*reply[operator.RequestState], error) {
			return s.requestState(in.ID, func() (operator.RequestState, error) { return s.store.CancelRequest(ctx, channel, in.ID) })
		})
}

func pollRequests[T request](ctx context.Context, s *Server, channel protocol.Channel, in *agentRequestsQuery) (*reply[protocol.RequestList[T]], error) {
	if in.NodeID == "" || in.Status == "" {
		return nil, newError(http.StatusForbidden, "node_id and status are both mandatory: a node lists only its own requests")
	}
	states, err := s.store.Requests(ctx, channel, in.NodeID, protocol.RequestStatus(in.Status), in.Limit)
	if err != nil {
		return nil, s.fail(err)
	}
	list := protocol.RequestList[T]{Requests: make([]T, len(states))}
	for i, state := range states {
		if err := json.Unmarshal(state.Spec, &list.Requests[i]); err != nil {
			return nil, s.fail(fmt.Errorf("decode stored %s request %s: %w", channel, state.ID, err))
		}
	}
	return answer(list), nil
}

func updateRequest[T request](ctx context.Context, s *Server, channel protocol.Channel, id string, u protocol.RequestUpdate) (*reply[T], error) {
	if err := checkTaskID(id); err != nil {
		return nil, err
	}
	u.ErrorMessage = head(u.ErrorMessage, protocol.MaxErrorMessageBytes)
	state, err := s.store.UpdateRequest(ctx, channel, id, u)
	if err != nil {
		return nil, s.fail(err)
	}
	var stored T
	if err := json.Unmarshal(state.Spec, &stored); err != nil {
		return nil, s.fail(fmt.Errorf("decode stored %s request %s: %w", channel, id, err))
	}
	return answer(stored), nil
}

func createRequest[T request](ctx context.Context, s *Server, channel protocol.Channel, body T) (*reply[operator.RequestState], error) {
	head := body.Header()
	if head.ID == "" {
		head.ID = newID()
	}
	if !protocol.ValidNodeID(head.NodeID) {
		return nil, newError(http.StatusUnprocessableEntity, "node_id: %q is no node id", clip(head.NodeID))
	}
	spec, err := json.Marshal(body)
	if err != nil {
		return nil, s.fail(fmt.Errorf("encode %s request %s: %w", channel, head.ID, err))
	}
	return s.requestState(head.ID, func() (operator.RequestState, error) {
		return s.store.CreateRequest(ctx, channel, head, spec)
	})
}

func (s *Server) listRequests(ctx context.Context, channel protocol.Channel, in *operatorRequestsQuery) (*reply[operator.Requests], error) {
	states, err := s.store.Requests(ctx, channel, in.NodeID, protocol.RequestStatus(in.Status), in.Limit)
	if err != nil {
		return nil, s.fail(err)
	}
	for i := range states {
		if states[i].Spec, err = withoutAuth(states[i].Spec); err != nil {
			return nil, s.fail(err)
		}
	}
	return answer(operator.Requests{Requests: states}), nil
}

// requestState answers with the request that get returns, without its
// credentials.
func (s *Server) requestState(id string, get func() (operator.RequestState, error)) (*reply[operator.RequestState], error) {
	if err := checkTaskID(id); err != nil {
		return nil, err
	}
	state, err := get()
	if err != nil {
		return nil, s.fail(err)
	}
	if state.Spec, err = withoutAuth(state.Spec); err != nil {
		return nil, s.fail(err)
	}
	return answer(state), nil
}

func withoutAuth(spec json.RawMessage) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(spec, &fields); err != nil {
		return nil, fmt.Errorf("decode stored request: %w", err)
	}
	delete(fields, "registry_auth")
	return json.Marshal(fields)
}

// newID names a task or request that came without a name.
func newID() string { return strings.ToLower(rand.Text()) }
