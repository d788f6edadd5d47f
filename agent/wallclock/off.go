//go:build !faults

package wallclock

import "time"

// offset is none: only a build for the tests of faults can have its clock set alone.
func offset() time.Duration { return 0 }
