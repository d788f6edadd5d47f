//go:build faults

package crashpoint

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// Variable names the point at which the process is to die: NAME, NAME#N for the N-th time
// it gets there, *#N for the N-th point it gets to, whichever that is.
const Variable = "CRASHPOINT"

var (
	at, pass = parse(os.Getenv(Variable))
	passed   atomic.Int64
)

func parse(value string) (name string, pass int64) {
	name, n, ok := strings.Cut(value, "#")
	if !ok {
		return name, 1
	}
	pass, err := strconv.ParseInt(n, 10, 64)
	if err != nil || pass < 1 {
		panic(Variable + "=" + value + ": want NAME or NAME#N")
	}
	return name, pass
}

// Reach says that the agent has come to the point of that name, and kills it there if
// this is where it is to die.
func Reach(name string) {
	if at != name && at != "*" || passed.Add(1) != pass {
		return
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
		panic(err)
	}
	select {} // until the signal has arrived
}
