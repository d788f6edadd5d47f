package devserver

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/heteroflow/node-agent/protocol"
)

// maxHolds bounds the requests held at once, each of which costs a goroutine
// and a connection.
const maxHolds = 8192

// waiters tells held requests that their node's change number has moved.
type waiters struct {
	mu    sync.Mutex
	nodes map[string]*waiting
}

// waiting is the held requests of one node.
type waiting struct {
	requests int
	moved    chan struct{} // closed and replaced at each change
}

// join adds a held request of the node; the returned function takes it away.
func (w *waiters) join(nodeID string) (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nodes == nil {
		w.nodes = map[string]*waiting{}
	}
	if w.nodes[nodeID] == nil {
		w.nodes[nodeID] = &waiting{moved: make(chan struct{})}
	}
	w.nodes[nodeID].requests++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.nodes[nodeID].requests--; w.nodes[nodeID].requests == 0 {
			delete(w.nodes, nodeID)
		}
	}
}

// moved returns a channel that is closed at the node's next change. Only for
// one who has joined.
func (w *waiters) moved(nodeID string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[nodeID].moved
}

// wake tells the node's held requests to look again.
func (w *waiters) wake(nodeID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if node := w.nodes[nodeID]; node != nil {
		close(node.moved)
		node.moved = make(chan struct{})
	}
}

type wakeQuery struct {
	NodeID string `query:"node_id" doc:"The caller's node. Mandatory: 403 without it."`
	Cursor string `query:"cursor" maxLength:"64" doc:"Cursor of the last answer; absent or not understood: answered at once."`
	Wait   int    `query:"wait" default:"25" minimum:"0" maximum:"3600" doc:"Seconds to wait; the server's own longest wait bounds it."`
}

func (s *Server) registerWake(api huma.API) {
	longest := time.Duration(s.features.WakeMaxSeconds) * time.Second
	huma.Register(api, huma.Operation{
		OperationID: "wake", Method: http.MethodGet, Path: protocol.WakePath, Tags: []string{tagAgent}, Security: bySystem,
		Summary:     "Hold until something changed for a node",
		Middlewares: huma.Middlewares{extend(longest + writeTimeout)}, Errors: []int{401, 403, 404, 422, 429},
	}, s.wake)
}

func (s *Server) wake(ctx context.Context, in *wakeQuery) (*reply[protocol.WakeReply], error) {
	if s.features.WakeMaxSeconds == 0 {
		return nil, newError(http.StatusNotFound, "wake is not offered here")
	}
	if !protocol.ValidNodeID(in.NodeID) {
		return nil, newError(http.StatusForbidden, "node_id is mandatory: a node waits only for itself")
	}
	if s.holds.Add(1) > maxHolds {
		s.holds.Add(-1)
		return nil, newError(http.StatusTooManyRequests, "%d wake requests are held already", maxHolds)
	}
	defer s.holds.Add(-1)
	wait := time.Duration(min(in.Wait, s.features.WakeMaxSeconds)) * time.Second
	cursor, err := s.hold(ctx, in.NodeID, parseCursor(in.Cursor), wait)
	if err != nil {
		return nil, s.fail(err)
	}
	now, err := s.store.Waiting(ctx, in.NodeID, cursor)
	if err != nil {
		return nil, s.fail(err)
	}
	return answer(protocol.WakeReply{
		Cursor: strconv.FormatInt(now.Change, 10),
		Tasks:  now.Tasks, Intents: now.Intents, Files: now.Files, Slices: now.Slices, Images: now.Images,
	}), nil
}

// parseCursor returns -1, which no change number is, for a cursor that this
// server did not give.
func parseCursor(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// hold waits until the node's change number is another than cursor, the time
// is up, or the server closes. It returns the cursor to count from: 0 where
// the given one is from a database that is gone.
func (s *Server) hold(ctx context.Context, nodeID string, cursor int64, wait time.Duration) (int64, error) {
	leave := s.waiters.join(nodeID)
	defer leave()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		moved := s.waiters.moved(nodeID) // before the look, so that no change slips between
		change, err := s.store.Change(ctx, nodeID)
		if err != nil {
			return 0, err
		}
		if cursor < 0 || cursor > change {
			return 0, nil
		}
		if change > cursor {
			return cursor, nil
		}
		select {
		case <-moved:
		case <-timer.C:
			return cursor, nil
		case <-s.closing:
			return cursor, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}
