// Package wake keeps one request held at the control plane, where that is offered, and
// starts the polls of the channels in which something waits: dispatch then takes
// milliseconds, and an idle node costs one request in 25 seconds.
//
// The answer carries counts only. While wake works the ordinary polls slow down to a
// safety net; when it fails twice in a row they return to their own period. Run is one
// loop in its caller's goroutine.
package wake

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/client"
	"github.com/heteroflow/node-agent/protocol"
)

// brokenAfter is how many failures in a row end the trust in wake.
const brokenAfter = 2

// Plane is the part of the control plane's client that wake uses.
type Plane interface {
	Wake(ctx context.Context, cursor string, wait time.Duration) (protocol.WakeReply, error)
}

// Options make a Waker.
type Options struct {
	Plane Plane
	// Poll starts the polls of the channels in which something waits.
	Poll func(waiting protocol.WakeReply)
	// RetryPeriod is the least pause after a failure; the longest is twice that, if the server
	// asks for no longer one.
	RetryPeriod time.Duration
	Log         *zap.Logger
}

// Waker holds the request.
type Waker struct {
	opts Options

	mu       sync.Mutex
	offered  time.Duration // longest wait the server offers; 0: none
	changed  chan struct{} // the offer changed
	answered bool          // since it was offered, at least once
	failures int           // in a row
}

// New makes a waker that waits for an offer.
func New(opts Options) *Waker {
	return &Waker{opts: opts, changed: make(chan struct{}, 1)}
}

// Offer takes what the last heartbeat's answer offers.
func (w *Waker) Offer(f protocol.Features) {
	offered := time.Duration(max(0, f.WakeMaxSeconds)) * time.Second
	w.mu.Lock()
	same := offered == w.offered
	w.offered = offered
	lost := offered == 0 && w.answered
	w.answered = w.answered && offered > 0
	w.mu.Unlock()
	if same {
		return
	}
	if lost {
		w.opts.Log.Info("wake is not offered any more, polling at the ordinary period")
		w.opts.Poll(everything)
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// Working reports whether wake can be relied on now.
func (w *Waker) Working() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.offered > 0 && w.answered && w.failures < brokenAfter
}

// Run holds requests while they are offered, until ctx ends.
func (w *Waker) Run(ctx context.Context) {
	cursor := ""
	for ctx.Err() == nil {
		w.mu.Lock()
		offered := w.offered
		w.mu.Unlock()
		if offered == 0 {
			select {
			case <-ctx.Done():
				return
			case <-w.changed:
			}
			continue
		}
		pause := w.hold(ctx, &cursor, offered)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// hold makes one request and returns the pause before the next.
func (w *Waker) hold(ctx context.Context, cursor *string, wait time.Duration) time.Duration {
	begun := time.Now()
	reply, err := w.opts.Plane.Wake(ctx, *cursor, wait)
	if ctx.Err() != nil {
		return 0
	}
	failures := w.note(err)
	if err != nil {
		if failures == brokenAfter {
			if !errors.Is(err, client.ErrUnauthorized) { // that one is logged by the client
				w.opts.Log.Warn("wake does not work, polling at the ordinary period", zap.Error(err))
			}
			w.opts.Poll(everything)
		}
		// A server that goes away breaks the requests of all nodes at once: they come back
		// spread over a whole period.
		return client.Pause(err, failures, w.opts.RetryPeriod) + rand.N(w.opts.RetryPeriod)
	}
	if failures >= brokenAfter {
		w.opts.Log.Info("wake works again")
	}
	moved := reply.Cursor != *cursor
	*cursor = reply.Cursor
	if !reply.Empty() && moved {
		w.opts.Poll(reply)
	}
	if time.Since(begun) < minHold && !moved {
		return minHold // a server that does not hold must not be asked without end
	}
	return 0
}

// everything polls every channel: loops that had slowed down take up their own period.
var everything = protocol.WakeReply{Tasks: 1, Intents: 1, Files: 1, Slices: 1, Images: 1}

// minHold is the least time between requests that bring nothing new.
const minHold = time.Second

// note counts failures. It returns how many there have been in a row, this one included;
// after a success, how many it ended.
func (w *Waker) note(err error) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.failures++
		return w.failures
	}
	ended := w.failures
	w.failures, w.answered = 0, true
	return ended
}
