//go:build faults

package wallclock

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"
)

// OffsetVariable is the variable of the environment that names the file that says by how
// much this process's clock is ahead of the machine's, as a Go duration. While there is no
// such file it goes like the machine's.
const OffsetVariable = "HFTEST_CLOCK"

func offset() time.Duration {
	file := os.Getenv(OffsetVariable)
	if file == "" {
		return 0
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		panic(err)
	}
	ahead, err := time.ParseDuration(strings.TrimSpace(string(text)))
	if err != nil {
		panic(OffsetVariable + ": " + err.Error())
	}
	return ahead
}
