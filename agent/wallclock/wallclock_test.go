package wallclock_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/agent/wallclock"
)

func TestTheClockHasNoMonotonicReading(t *testing.T) {
	if now := wallclock.Now().String(); strings.Contains(now, "m=") {
		t.Errorf("%s can be taken for a time that nobody sets", now)
	}
}

// setBy has the environment ask for a clock that is two hours ahead, and returns how far it
// is.
func setBy(t *testing.T) time.Duration {
	t.Helper()
	file := filepath.Join(t.TempDir(), "clock")
	t.Setenv("HFTEST_CLOCK", file)
	if ahead := time.Until(wallclock.Now()); ahead.Abs() > time.Hour {
		t.Errorf("without the file it is %v ahead", ahead)
	}
	if err := os.WriteFile(file, []byte("2h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return time.Until(wallclock.Now()).Round(time.Hour)
}
