package bootclock_test

import (
	"testing"
	"time"

	"github.com/heteroflow/node-agent/agent/bootclock"
)

func TestTheClockGoesOnWithTheMachine(t *testing.T) {
	first, ok := bootclock.Now()
	second, okToo := bootclock.Now()
	if !ok || !okToo || first.Boot == "" || first.Up <= 0 {
		t.Fatalf("%+v %t, then %+v %t", first, ok, second, okToo)
	}
	if since, ok := second.Since(first); !ok || since < 0 || since > time.Hour {
		t.Errorf("%v after %v are %v, %t", second, first, since, ok)
	}
}

func TestMomentsAreComparedWithinOneRunOfTheMachineOnly(t *testing.T) {
	now := bootclock.Moment{Boot: "a", Up: time.Hour}
	cases := map[string]struct {
		earlier bootclock.Moment
		want    time.Duration
		ok      bool
	}{
		"earlier":                      {bootclock.Moment{Boot: "a", Up: 20 * time.Minute}, 40 * time.Minute, true},
		"the same":                     {now, 0, true},
		"before the boot, by its age":  {now.Before(2 * time.Hour), 2 * time.Hour, true},
		"before the machine's start":   {bootclock.Moment{Boot: "b", Up: time.Minute}, 0, false},
		"to come":                      {bootclock.Moment{Boot: "a", Up: 2 * time.Hour}, 0, false},
		"not known":                    {bootclock.Moment{}, 0, false},
		"of no machine, but some time": {bootclock.Moment{Up: time.Minute}, 0, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, ok := now.Since(tc.earlier); got != tc.want || ok != tc.ok {
				t.Errorf("got %v, %t, want %v, %t", got, ok, tc.want, tc.ok)
			}
		})
	}
	if _, ok := (bootclock.Moment{}).Since(bootclock.Moment{}); ok {
		t.Error("two moments that are not known are compared")
	}
}
