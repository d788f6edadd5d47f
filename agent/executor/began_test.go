package executor

import (
	"testing"
	"time"

	"github.com/heteroflow/node-agent/agent/bootclock"
)

func TestTheAgeOfARunIsWhatNobodyCanSet(t *testing.T) {
	wall := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	now := bootclock.Moment{Boot: "b", Up: 10 * time.Hour}
	// The clock was set forward by so much since.
	askedThen := func(ago, set time.Duration) *Begun {
		return &Begun{Moment: now.Before(ago), Asked: wall.Add(-ago - set)}
	}
	asked := func(ago time.Duration) *Begun { return askedThen(ago, 0) }
	seen := func(ago time.Duration, run time.Time) *Begun { return &Begun{Moment: now.Before(ago), Run: run} }
	otherBoot := &Begun{Moment: bootclock.Moment{Boot: "a", Up: now.Up}, Run: wall.Add(-time.Minute)}
	cases := map[string]struct {
		started time.Time
		noted   *Begun
		want    time.Duration
		known   bool
	}{
		"of which nothing is noted":                    {wall.Add(-time.Minute), nil, time.Minute, false},
		"of long ago":                                  {wall.Add(-2 * time.Hour), nil, 2 * time.Hour, false},
		"that started later than now":                  {wall.Add(2 * time.Hour), nil, 0, false},
		"that started before there were clocks":        {time.Time{}.Add(1), nil, oldest, false},
		"that starts after all clocks":                 {time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), nil, 0, false},
		"that was asked for":                           {wall.Add(-time.Second), asked(2 * time.Second), time.Second, false},
		"seen only when the daemon answers again":      {wall.Add(-10 * time.Minute), asked(11 * time.Minute), 10 * time.Minute, false},
		"that started before it was asked for":         {wall.Add(-2 * time.Hour), asked(2 * time.Second), 2 * time.Second, false},
		"that starts later than now, though asked for": {wall.Add(2 * time.Hour), asked(2 * time.Second), 0, false},
		"asked for long ago, and started at once":      {wall.Add(-time.Hour), asked(time.Hour), time.Hour, false},
		"that took long to start, and the clock set":   {wall.Add(-2*time.Hour - 10*time.Second), askedThen(50*time.Second, 2*time.Hour), 10 * time.Second, false},
		"that took long to start, and it was set back": {wall.Add(2*time.Hour - 10*time.Second), askedThen(50*time.Second, -2*time.Hour), 10 * time.Second, false},
		"that was seen, and the clock set forward":     {wall.Add(-3 * time.Hour), seen(20*time.Minute, wall.Add(-3*time.Hour)), 20 * time.Minute, true},
		"that was seen, and the clock set back":        {wall.Add(3 * time.Hour), seen(20*time.Minute, wall.Add(3*time.Hour)), 20 * time.Minute, true},
		"that was seen, and started now by the clock":  {wall, seen(20*time.Minute, wall), 20 * time.Minute, true},
		"after another one that was seen":              {wall.Add(-time.Minute), seen(20*time.Minute, wall.Add(-20*time.Minute)), time.Minute, false},
		"noted before the machine was started":         {wall.Add(-time.Minute), otherBoot, time.Minute, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, known := tc.noted.age(tc.started, wall, now); got != tc.want || known != tc.known {
				t.Errorf("it is %v old, known %t; want %v, %t", got, known, tc.want, tc.known)
			}
		})
	}
	t.Run("where the kernel has no such clock", func(t *testing.T) {
		if got, known := asked(time.Second).age(wall.Add(-time.Minute), wall, bootclock.Moment{}); got != time.Minute || known {
			t.Errorf("it is %v old, known %t", got, known)
		}
	})
}
