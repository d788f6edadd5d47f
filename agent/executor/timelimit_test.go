package executor

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestATimeLimitCountsOnHoweverTheClockIsSet(t *testing.T) {
	const limit, run = time.Minute, 20 * time.Second
	for name, set := range map[string]time.Duration{"forward": 2 * time.Hour, "back": -2 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l timeLimit
				first := time.Now().Round(0)
				l.left(limit, first, first)
				time.Sleep(run)
				if left := l.left(limit, first, time.Now().Add(set)); left != limit-run {
					t.Errorf("%v after the start %v is left of %v", run, left, limit)
				}
				second := time.Now().Round(0) // it is woken
				if left := l.left(limit, second, second); left != limit {
					t.Errorf("the next run has %v", left)
				}
			})
		})
	}
}

func TestWhatIsLeftOfATimeLimitIsNeverMoreThanItNorOutOfRange(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		limit   time.Duration
		started time.Time
		asked   time.Duration // ago by the agent that sees the run; 0: an earlier one asked
		want    time.Duration
	}{
		"an earlier agent's run":                        {time.Hour, now.Add(-time.Minute), 0, 59 * time.Minute},
		"that is over its time":                         {time.Hour, now.Add(-2 * time.Hour), 0, 0},
		"that started later than now":                   {time.Hour, now.Add(2 * time.Hour), 0, time.Hour},
		"that started before there were clocks":         {time.Hour, time.Time{}.Add(1), 0, 0},
		"that starts after all clocks":                  {time.Hour, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), 0, time.Hour},
		"the longest limit there is":                    {math.MaxInt64, now.Add(-time.Minute), 0, math.MaxInt64 - time.Minute},
		"a run of its own":                              {time.Hour, now.Add(-time.Second), 2 * time.Second, time.Hour - time.Second},
		"seen only when the daemon answers again":       {time.Hour, now.Add(-10 * time.Minute), 11 * time.Minute, 50 * time.Minute},
		"that started before it was asked for":          {time.Hour, now.Add(-2 * time.Hour), 2 * time.Second, time.Hour - 2*time.Second},
		"that starts later than now, though asked for":  {time.Hour, now.Add(2 * time.Hour), 2 * time.Second, time.Hour},
		"asked for long ago, and over its time by that": {time.Minute, now.Add(-time.Hour), time.Hour, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l timeLimit
				if tc.asked > 0 {
					l.asks()
					time.Sleep(tc.asked)
					l.asks() // once more: the answer was lost
				}
				if left := l.left(tc.limit, tc.started, now); left != tc.want {
					t.Errorf("%v is left, want %v", left, tc.want)
				}
			})
		})
	}
}
