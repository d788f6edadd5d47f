package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Runner runs vendors' tools: the machine's own (Exec), a recording of them
// (Recorder) or a recording instead of them (Replay).
type Runner interface {
	// Find returns where the tool is, or an error that wraps ErrNotInstalled.
	Find(name string) (string, error)

	// Run runs the command to its end. A non-zero exit status is not an error:
	// many tools print valid rows with one. Errors: one that wraps
	// ErrNotInstalled, a *TimeoutError, a *HungError, the context's error, or
	// what the system said when the tool could not be started. A Result with
	// what was printed comes with a *TimeoutError and a *HungError as well.
	Run(ctx context.Context, cmd Command) (Result, error)
}

// Command is one call of a tool.
type Command struct {
	Name     string        // base name, looked up by Find
	Args     []string      // without the name
	Env      []string      // K=V beside the minimal environment, e.g. LD_LIBRARY_PATH
	Input    string        // what the tool reads on stdin; usually nothing
	Deadline time.Duration // 0 means DefaultDeadline
	// MaxOutput caps stdout and stderr, in bytes each; 0 means DefaultMaxOutput.
	// What is over the cap is read and thrown away.
	MaxOutput int
}

const (
	// DefaultDeadline is longer than any healthy tool takes (nvidia-smi on an
	// 8-card node without persistence mode: up to 8 s) and short enough that a
	// dead one is reported within two heartbeats or three.
	DefaultDeadline = 15 * time.Second
	// DefaultMaxOutput holds nvidia-smi -q -x of 16 cards ten times over.
	DefaultMaxOutput = 4 << 20
)

// Argv returns name and arguments as one list.
func (c Command) Argv() []string { return append([]string{c.Name}, c.Args...) }

// String returns the command for messages.
func (c Command) String() string { return strings.Join(c.Argv(), " ") }

// Result is what a tool did.
type Result struct {
	Argv      []string
	ExitCode  int // 128+n when signal n ended it; -1 when it never ended
	Stdout    []byte
	Stderr    []byte
	Duration  time.Duration
	Truncated bool // output was longer than the cap
}

// Output returns stdout, or stderr when stdout is empty: vendors' tools print
// their errors on either.
func (r Result) Output() []byte {
	if len(strings.TrimSpace(string(r.Stdout))) == 0 {
		return r.Stderr
	}
	return r.Stdout
}

// ErrNotInstalled is the reason of an error that says that a tool is not on
// this machine: not a fault, but "not this vendor".
var ErrNotInstalled = errors.New("not installed")

// TimeoutError says that a tool ran past its deadline and was killed.
type TimeoutError struct {
	Argv     []string
	Deadline time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("it did not end by its deadline of %s", e.Deadline)
}

// HungError says that a copy of a tool could not be killed: the driver holds it
// in the kernel. It is also what a later Run of that tool gets, without a second
// copy being started, until the hung one is gone.
type HungError struct {
	Path  string
	PID   int // 0 when the program did not even start
	Since time.Time
}

func (e *HungError) Error() string {
	return fmt.Sprintf("%s (pid %d) does not die since %s: the driver holds it in the kernel; "+
		"no other copy is started until it is gone, a reboot may be needed",
		e.Path, e.PID, e.Since.UTC().Format(time.RFC3339))
}
