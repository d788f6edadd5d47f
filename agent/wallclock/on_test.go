//go:build faults

package wallclock_test

import (
	"testing"
	"time"
)

func TestABuildForTheTestsOfFaultsHasTheClockThatTheFileSays(t *testing.T) {
	if ahead := setBy(t); ahead != 2*time.Hour {
		t.Errorf("it is %v ahead", ahead)
	}
}
