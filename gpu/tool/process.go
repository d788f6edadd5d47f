package tool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// maxProcessStderr is how much of a long-lived process's stderr is kept: its
// first words, which say why it does not work.
const maxProcessStderr = 16 << 10

// Process is a long-lived child that is spoken to over its standard streams: the
// NVIDIA helper. Its owner calls Close. Reads and writes honour SetDeadline, so
// that a child that says nothing blocks nobody.
type Process struct {
	child   *child
	in, out *os.File // our ends
	stderr  *capture
}

// Start starts a long-lived program; Command.Deadline bounds the start, and
// Input is not used. It holds the program's turn (see Exec.Run) until it has
// ended: a second one is not started while it lives, also when it hangs.
func (e *Exec) Start(ctx context.Context, cmd Command) (*Process, error) {
	if cmd.Deadline <= 0 {
		cmd.Deadline = DefaultDeadline
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmd.Deadline, &TimeoutError{Argv: cmd.Argv(), Deadline: cmd.Deadline})
	defer cancel()
	c, err := e.acquire(ctx, cmd)
	if err != nil {
		return nil, err
	}
	p, err := newProcess(c)
	if err != nil {
		c.slot.release()
		return nil, fmt.Errorf("start %s: %w", cmd, err)
	}
	go c.own()
	select {
	case <-c.started:
		err = c.startErr
	case <-ctx.Done():
		err = c.end(context.Cause(ctx))
	}
	if err != nil {
		p.closeFiles()
		return nil, fmt.Errorf("start %s: %w", cmd, err)
	}
	return p, nil
}

// newProcess connects the child's streams to pipes.
func newProcess(c *child) (*Process, error) {
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), in.Close())
	}
	stderr, err := newCapture(maxProcessStderr)
	if err != nil {
		return nil, errors.Join(err, stdin.Close(), in.Close(), stdout.Close(), out.Close())
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, stdout, stderr.w
	c.files = []*os.File{stdin, stdout, stderr.w}
	return &Process{child: c, in: in, out: out, stderr: stderr}, nil
}

// Write writes to the child's standard input.
func (p *Process) Write(b []byte) (int, error) { return p.in.Write(b) }

// Read reads from the child's standard output.
func (p *Process) Read(b []byte) (int, error) { return p.out.Read(b) }

// SetDeadline bounds the Reads and Writes under way and to come; they fail with
// os.ErrDeadlineExceeded. The zero time means no bound.
func (p *Process) SetDeadline(t time.Time) error {
	return errors.Join(p.in.SetDeadline(t), p.out.SetDeadline(t))
}

// Stderr returns the first words of the child's standard error so far; once Done
// is closed, its last ones are among them.
func (p *Process) Stderr() []byte {
	select {
	case <-p.child.exited:
		p.stderr.settle(drainGrace)
	default:
	}
	return p.stderr.bytes()
}

// PID returns the child's process number.
func (p *Process) PID() int { return p.child.cmd.Process.Pid }

// Done is closed when the child has ended.
func (p *Process) Done() <-chan struct{} { return p.child.exited }

// ExitCode is as in Result; valid once Done is closed.
func (p *Process) ExitCode() int { return p.child.exitCode() }

// Close ends the child: it may leave by itself when its input ends, is killed
// when it does not, and abandoned when it does not die. The error is then a
// *HungError. Close is called once.
func (p *Process) Close() error {
	_ = p.in.Close()
	var err error
	if !p.child.exitedWithin(termGrace) {
		err = p.child.end(nil)
	}
	p.closeFiles()
	return err
}

func (p *Process) closeFiles() {
	_ = p.in.Close() // closed twice by Close: an error that says so
	_ = p.out.Close()
	p.stderr.finish(drainGrace)
}
