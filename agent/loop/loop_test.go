package loop_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/agent/loop"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func every(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// run turns a loop for the given time and returns when its rounds were, counted from
// its start.
func run(t *testing.T, l loop.Loop, lasting time.Duration, during func()) (rounds []time.Duration) {
	t.Helper()
	start := time.Now()
	do := l.Do
	l.Do = func(ctx context.Context) error {
		rounds = append(rounds, time.Since(start))
		if do == nil {
			return nil
		}
		return do(ctx)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	if during != nil {
		go during()
	}
	l.Run(ctx)
	return rounds
}

func TestRoundsStartAtARandomPhaseAndKeepTheirPeriodWithinTenPerCent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var early, late bool
		for range 50 {
			rounds := run(t, loop.Loop{Period: every(10 * time.Second)}, time.Minute, nil)
			if first := rounds[0]; first > 10*time.Second {
				t.Fatalf("the first round came after %v", first)
			} else if first < 5*time.Second {
				early = true
			} else {
				late = true
			}
			for i := range len(rounds) - 1 {
				if gap := rounds[i+1] - rounds[i]; gap < 9*time.Second || gap > 11*time.Second {
					t.Fatalf("a gap of %v", gap)
				}
			}
		}
		if !early || !late {
			t.Fatal("fifty first rounds fell into the same half of the period")
		}
	})
}

func TestAPromptLoopStartsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rounds := run(t, loop.Loop{Period: every(time.Hour), Prompt: true}, time.Minute, nil)
		if len(rounds) != 1 || rounds[0] != 0 {
			t.Fatalf("rounds at %v", rounds)
		}
	})
}

func TestAKickStartsARoundAtOnceAndManyKicksAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kicker := loop.NewKicker()
		rounds := run(t, loop.Loop{Period: every(time.Hour), Kick: kicker, Prompt: true}, time.Minute, func() {
			time.Sleep(10 * time.Second)
			for range 5 {
				kicker.Kick()
			}
		})
		// The loop may take the first kick before the others come.
		if n := len(rounds); n < 2 || n > 3 || rounds[1] != 10*time.Second {
			t.Fatalf("rounds at %v", rounds)
		}
	})
}

func TestFailuresAreCountedForThePauseAndForgottenAfterSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counted []int
		n := 0
		rounds := run(t, loop.Loop{
			Period: every(time.Second),
			Prompt: true,
			Do: func(context.Context) error {
				if n++; n == 3 {
					return nil
				}
				return errors.New("failed")
			},
			Pause: func(_ error, failures int, period time.Duration) time.Duration {
				counted = append(counted, failures)
				return 10 * period
			},
		}, 25*time.Second, nil)
		if len(rounds) < 3 || counted[0] != 1 || counted[1] != 2 || counted[2] != 1 {
			t.Fatalf("rounds at %v, failures %v", rounds, counted)
		}
		if gap := rounds[1] - rounds[0]; gap < 9*time.Second {
			t.Fatalf("paused only %v", gap)
		}
	})
}
