package wake_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/wake"
	"github.com/heteroflow/node-agent/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plane answers held requests by script, the last entry for all that follow.
type plane struct {
	script  []answer
	w       *wake.Waker
	cursors []string
	at      []time.Time
	working []bool // at each request, whether wake can be relied on
}

type answer struct {
	after time.Duration // held for this long; 0: at once
	reply protocol.WakeReply
	err   error
}

func (p *plane) Wake(ctx context.Context, cursor string, wait time.Duration) (protocol.WakeReply, error) {
	a := p.script[min(len(p.cursors), len(p.script)-1)]
	p.cursors, p.at, p.working = append(p.cursors, cursor), append(p.at, time.Now()), append(p.working, p.w.Working())
	select {
	case <-ctx.Done():
		return protocol.WakeReply{}, ctx.Err()
	case <-time.After(min(a.after, wait)):
		return a.reply, a.err
	}
}

// run turns a waker for the given time; polls collects what it started and when.
func run(t *testing.T, p *plane, lasting time.Duration, during func(w *wake.Waker)) (polls []time.Duration, w *wake.Waker) {
	t.Helper()
	start := time.Now()
	w = wake.New(wake.Options{
		Plane: p, RetryPeriod: 5 * time.Second, Log: zap.NewNop(),
		Poll: func(protocol.WakeReply) { polls = append(polls, time.Since(start)) },
	})
	p.w = w
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	var wg sync.WaitGroup
	if during != nil {
		wg.Go(func() { during(w) })
	}
	w.Run(ctx)
	wg.Wait()
	return polls, w
}

func offer(w *wake.Waker) { w.Offer(protocol.Features{WakeMaxSeconds: 25}) }

const hour = time.Hour

func TestNothingIsHeldBeforeItIsOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plane{script: []answer{{after: hour}}}
		_, w := run(t, p, time.Minute, nil)
		if len(p.cursors) != 0 || w.Working() {
			t.Fatalf("%d requests, working %v", len(p.cursors), w.Working())
		}
	})
}

func TestWhatWaitsIsPolledAtOnceAndOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plane{script: []answer{
			{after: 3 * time.Second, reply: protocol.WakeReply{Cursor: "1", Tasks: 1}},
			{after: hour, reply: protocol.WakeReply{Cursor: "1", Tasks: 1}}, // still waiting: no room for it
		}}
		polls, w := run(t, p, time.Minute, offer)
		if len(polls) != 1 || polls[0] != 3*time.Second {
			t.Fatalf("polls at %v", polls)
		}
		if n := len(p.cursors); n < 3 || n > 4 || p.cursors[0] != "" || p.cursors[1] != "1" {
			t.Fatalf("cursors %v", p.cursors)
		}
		if !w.Working() {
			t.Fatal("does not count as working")
		}
	})
}

func TestTwoFailuresBringTheOrdinaryPollsBackUntilItWorksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		p := &plane{script: []answer{
			{after: time.Second, reply: protocol.WakeReply{Cursor: "1"}},
			{err: broken},
			{err: broken},
			{err: broken},
			{after: hour, reply: protocol.WakeReply{Cursor: "1"}},
		}}
		polls, w := run(t, p, time.Minute, offer)
		if want := []bool{false, true, true, false, false}; len(polls) != 1 || !slices.Equal(p.working[:5], want) {
			t.Fatalf("polls at %v, working %v, want %v", polls, p.working, want)
		}
		if !w.Working() {
			t.Fatal("does not count as working again")
		}
	})
}

func TestTheNodesWhoseRequestsBreakAtOnceComeBackSpreadOverAPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plane{script: []answer{{err: errors.New("broken")}}}
		run(t, p, time.Hour, offer)
		const period, parts = 5 * time.Second, 5
		var comeBack [parts]int
		for i := range len(p.at) - 1 {
			pause := p.at[i+1].Sub(p.at[i])
			if pause < period || pause >= 2*period {
				t.Fatalf("a pause of %v", pause)
			}
			comeBack[(pause-period)*parts/period]++
		}
		for part, nodes := range comeBack {
			if even := len(p.at) / parts; nodes > even*3/2 {
				t.Errorf("%d of %d pauses are in part %d of %d", nodes, len(p.at), part+1, parts)
			}
		}
	})
}

func TestAServerThatDoesNotHoldIsNotAskedWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plane{script: []answer{{reply: protocol.WakeReply{Cursor: "1", Tasks: 1}}}}
		run(t, p, time.Minute, offer)
		if n := len(p.cursors); n > 62 {
			t.Fatalf("%d requests in a minute", n)
		}
	})
}

func TestAnOfferTakenBackEndsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plane{script: []answer{{after: hour, reply: protocol.WakeReply{Cursor: "1"}}}}
		polls, w := run(t, p, 5*time.Minute, func(w *wake.Waker) {
			offer(w)
			time.Sleep(time.Minute)
			w.Offer(protocol.Features{})
		})
		if n := len(p.cursors); n > 4 || w.Working() || len(polls) != 1 {
			t.Fatalf("%d requests, working %v, polls at %v", n, w.Working(), polls)
		}
	})
}
