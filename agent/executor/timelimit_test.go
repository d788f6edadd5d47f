package executor

import (
	"math"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/agent/bootclock"
)

func TestTheAgeOfARunIsNeverMoreThanItsTimeNorOutOfRange(t *testing.T) {
	wall := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	now := bootclock.Moment{Boot: "b", Up: 10 * time.Hour}
	// The clock was set forward by so much since.
	askedThen := func(ago, set time.Duration) *Timed {
		return &Timed{Moment: now.Before(ago), Asked: wall.Add(-ago - set)}
	}
	asked := func(ago time.Duration) *Timed { return askedThen(ago, 0) }
	seen := func(ago time.Duration, run time.Time) *Timed { return &Timed{Moment: now.Before(ago), Run: run} }
	otherBoot := &Timed{Moment: bootclock.Moment{Boot: "a", Up: now.Up}, Run: wall.Add(-time.Minute)}
	cases := map[string]struct {
		limit   time.Duration
		started time.Time
		noted   *Timed
		want    time.Duration
		known   bool
	}{
		"of which nothing is noted":                     {time.Hour, wall.Add(-time.Minute), nil, time.Minute, false},
		"that is over its time":                         {time.Hour, wall.Add(-2 * time.Hour), nil, time.Hour, false},
		"that started later than now":                   {time.Hour, wall.Add(2 * time.Hour), nil, 0, false},
		"that started before there were clocks":         {time.Hour, time.Time{}.Add(1), nil, time.Hour, false},
		"that starts after all clocks":                  {time.Hour, time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), nil, 0, false},
		"with the longest limit there is":               {math.MaxInt64, wall.Add(-time.Minute), nil, time.Minute, false},
		"that was asked for":                            {time.Hour, wall.Add(-time.Second), asked(2 * time.Second), time.Second, false},
		"seen only when the daemon answers again":       {time.Hour, wall.Add(-10 * time.Minute), asked(11 * time.Minute), 10 * time.Minute, false},
		"that started before it was asked for":          {time.Hour, wall.Add(-2 * time.Hour), asked(2 * time.Second), 2 * time.Second, false},
		"that starts later than now, though asked for":  {time.Hour, wall.Add(2 * time.Hour), asked(2 * time.Second), 0, false},
		"asked for long ago, and over its time by that": {time.Minute, wall.Add(-time.Hour), asked(time.Hour), time.Minute, false},
		"that took long to start, and the clock set":    {time.Minute, wall.Add(-2*time.Hour - 10*time.Second), askedThen(50*time.Second, 2*time.Hour), 10 * time.Second, false},
		"that took long to start, and it was set back":  {time.Minute, wall.Add(2*time.Hour - 10*time.Second), askedThen(50*time.Second, -2*time.Hour), 10 * time.Second, false},
		"that was seen, and the clock set forward":      {time.Hour, wall.Add(-3 * time.Hour), seen(20*time.Minute, wall.Add(-3*time.Hour)), 20 * time.Minute, true},
		"that was seen, and the clock set back":         {time.Hour, wall.Add(3 * time.Hour), seen(20*time.Minute, wall.Add(3*time.Hour)), 20 * time.Minute, true},
		"that was seen, and its time is over":           {time.Minute, wall, seen(20*time.Minute, wall), time.Minute, true},
		"after another one that was seen":               {time.Hour, wall.Add(-time.Minute), seen(20*time.Minute, wall.Add(-20*time.Minute)), time.Minute, false},
		"noted before the machine was started":          {time.Hour, wall.Add(-time.Minute), otherBoot, time.Minute, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, known := tc.noted.age(tc.limit, tc.started, wall, now); got != tc.want || known != tc.known {
				t.Errorf("it is %v old, known %t; want %v, %t", got, known, tc.want, tc.known)
			}
		})
	}
	t.Run("where the kernel has no such clock", func(t *testing.T) {
		if got, known := asked(time.Second).age(time.Hour, wall.Add(-time.Minute), wall, bootclock.Moment{}); got != time.Minute || known {
			t.Errorf("it is %v old, known %t", got, known)
		}
	})
}
