package tool

import (
	"context"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"
)

// Replay answers from a recording instead of the machine. A tool is installed
// when the recording has a command of that name; a command is answered when its
// arguments and input are exactly those recorded, and is "not installed" else.
// Environment and limits are ignored. It is safe for concurrent use.
type Replay struct {
	commands []Recorded

	mu    sync.Mutex
	asked map[int]bool // positions in commands
}

// NewReplay returns a Replay of the given commands.
func NewReplay(commands ...Recorded) *Replay {
	return &Replay{commands: commands, asked: map[int]bool{}}
}

// OpenReplay returns a Replay of the recording in dir.
func OpenReplay(dir string) (*Replay, error) {
	commands, err := ReadRecording(dir)
	if err != nil {
		return nil, err
	}
	return NewReplay(commands...), nil
}

// Find implements Runner.
func (r *Replay) Find(name string) (string, error) {
	for _, c := range r.commands {
		if path.Base(c.Argv[0]) == name {
			return c.Argv[0], nil
		}
	}
	return "", fmt.Errorf("%s: %w in the recording", name, ErrNotInstalled)
}

// Run implements Runner.
func (r *Replay) Run(ctx context.Context, cmd Command) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	for i, c := range r.commands {
		if path.Base(c.Argv[0]) != cmd.Name || !slices.Equal(c.Argv[1:], cmd.Args) || c.Input != cmd.Input {
			continue
		}
		r.mu.Lock()
		r.asked[i] = true
		r.mu.Unlock()
		switch c.Error {
		case errTimeout:
			return c.Result, fmt.Errorf("run %s: %w", cmd, &TimeoutError{Argv: c.Argv, Deadline: c.Duration})
		case errHung:
			return c.Result, fmt.Errorf("run %s: %w", cmd, &HungError{Path: c.Argv[0], Since: time.Now().Add(-c.Duration)})
		}
		return c.Result, nil
	}
	return Result{}, fmt.Errorf("%s: %w in the recording", cmd, ErrNotInstalled)
}

// Unasked returns the recorded commands that nobody has run: evidence from
// another version of the agent, or recorded by hand.
func (r *Replay) Unasked() []Recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rest []Recorded
	for i, c := range r.commands {
		if !r.asked[i] {
			rest = append(rest, c)
		}
	}
	return rest
}
