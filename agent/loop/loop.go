// Package loop turns the agent's periodic work: one call of a function per period, with
// a random phase and jitter so that a fleet restarted at once does not arrive at once,
// and with a way to be kicked before the period is over.
//
// A loop runs in its caller's goroutine and starts none.
package loop

import (
	"context"
	"math/rand/v2"
	"time"
)

// Loop is one piece of periodic work.
type Loop struct {
	// Period between two rounds; asked for after each, so that a round can change it.
	Period func() time.Duration
	// Do is one round.
	Do func(ctx context.Context) error
	// Pause, if set, says how long to wait after the failures-th failed round in a
	// row, given the period.
	Pause func(err error, failures int, period time.Duration) time.Duration
	// Kick, if set, starts a round at once.
	Kick <-chan struct{}
	// Prompt makes the first round start at once instead of at a random point of the
	// first period.
	Prompt bool
}

// Run turns the loop until ctx ends. Errors are Do's to report.
func (l Loop) Run(ctx context.Context) {
	wait := time.Duration(rand.Int64N(int64(l.Period()) + 1))
	if l.Prompt {
		wait = 0
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.Kick:
		}
		err := l.Do(ctx)
		wait = l.Period()
		if err == nil {
			failures = 0
		} else if failures++; l.Pause != nil {
			wait = l.Pause(err, failures, wait)
		}
		timer.Reset(Jitter(wait))
	}
}

// Jitter is d, give or take ten per cent.
func Jitter(d time.Duration) time.Duration {
	spread := int64(d / 10)
	return d + time.Duration(rand.Int64N(2*spread+1)-spread)
}

// Kicker starts rounds of a loop from other goroutines. Kicks while a round is due are
// one kick.
type Kicker chan struct{}

// NewKicker makes a Kicker.
func NewKicker() Kicker { return make(Kicker, 1) }

// Kick asks for a round at once and never blocks.
func (k Kicker) Kick() {
	select {
	case k <- struct{}{}:
	default:
	}
}
