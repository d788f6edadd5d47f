// Package bootclock is the kernel's clock that counts from the machine's start. Nobody can
// set it, and unlike the monotonic reading of a time.Time it means the same to every process
// since that start, so that a later agent can tell how long ago something was.
//
// It decides nothing and runs no goroutine.
package bootclock

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// bootIDFile names the machine's present run (man 4 random).
const bootIDFile = "/proc/sys/kernel/random/boot_id"

// Moment is one on the clock, to be kept and compared with later ones.
type Moment struct {
	Boot string        `json:"boot"`  // the kernel's boot id
	Up   time.Duration `json:"up_ns"` // since that boot, time in suspension included
}

// Now is this moment; false: the kernel does not tell.
func Now() (Moment, bool) {
	boot, err := os.ReadFile(bootIDFile)
	id := strings.TrimSpace(string(boot))
	if err != nil || id == "" {
		return Moment{}, false
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return Moment{}, false
	}
	return Moment{Boot: id, Up: time.Duration(up.Nano())}, true
}

// Since is how long before m the earlier moment was; false: that was before the machine was
// last started, or was never known.
func (m Moment) Since(earlier Moment) (time.Duration, bool) {
	if m.Boot == "" || m.Boot != earlier.Boot || earlier.Up > m.Up {
		return 0, false
	}
	return m.Up - earlier.Up, true
}

// Before is the moment that lies d before m.
func (m Moment) Before(d time.Duration) Moment { return Moment{Boot: m.Boot, Up: m.Up - d} }
