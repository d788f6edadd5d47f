//go:build faults

package crashpoint

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// The variables of the environment that name a point: NAME, NAME#N for the N-th time the
// process gets there, *#N for the N-th point it gets to, whichever that is.
const (
	DieVariable  = "CRASHPOINT" // where the process dies
	HoldVariable = "HOLDPOINT"  // where it waits, as long as there is the file
	FileVariable = "HOLDFILE"   // that it makes there
)

var (
	die  = parse(DieVariable)
	hold = parse(HoldVariable)
)

// point is a place and the time of getting there that counts.
type point struct {
	name   string
	pass   int64
	passed atomic.Int64
}

func parse(variable string) *point {
	name, n, ok := strings.Cut(os.Getenv(variable), "#")
	p := &point{name: name, pass: 1}
	if !ok {
		return p
	}
	var err error
	if p.pass, err = strconv.ParseInt(n, 10, 64); err != nil || p.pass < 1 {
		panic(variable + ": want NAME or NAME#N, got #" + n)
	}
	return p
}

func (p *point) reached(name string) bool {
	return (p.name == name || p.name == "*") && p.passed.Add(1) == p.pass
}

// Reach says that the agent has come to the point of that name, and kills or holds it
// there if this is the one.
func Reach(name string) {
	if die.reached(name) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(err)
		}
		select {} // until the signal has arrived
	}
	if hold.reached(name) {
		if err := wait(os.Getenv(FileVariable)); err != nil {
			panic(err)
		}
	}
}

// wait makes the file and returns when somebody has removed it.
func wait(file string) error {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
