//go:build !faults

package wallclock_test

import "testing"

func TestNobodyCanSetTheClockOfTheProductAlone(t *testing.T) {
	if ahead := setBy(t); ahead != 0 {
		t.Errorf("it is %v ahead", ahead)
	}
}
