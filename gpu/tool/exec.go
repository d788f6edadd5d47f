package tool

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	// termGrace is how long a tool may take to leave after SIGTERM (nvidia-smi
	// releases its driver handles), before SIGKILL.
	termGrace = 500 * time.Millisecond
	// killGrace is how long the kernel may take to end it after SIGKILL, before
	// it is held for stuck in the driver and abandoned.
	killGrace = 2 * time.Second
	// drainGrace is how long the rest of the output may take once the tool has
	// ended; its children are killed then, but one may be stuck and hold the pipe.
	drainGrace = time.Second
)

// Exec runs the tools of this machine. It is safe for concurrent use.
type Exec struct {
	hostRoot string
	env      []string
	kill     func(pgid int, sig syscall.Signal) // a seam: tests refuse to kill
	slots    slots
}

// NewExec returns an Exec. hostRoot is "" or "/" on the host itself. An agent in
// a container names there where the host's root file system is mounted: tools
// are looked for below it and run with it as their root (chroot(2)), with the
// host's own libraries and device nodes, which needs CAP_SYS_CHROOT.
func NewExec(hostRoot string) *Exec {
	if hostRoot = filepath.Clean(hostRoot); hostRoot == "/" || hostRoot == "." {
		hostRoot = ""
	}
	return &Exec{
		hostRoot: hostRoot,
		// A tool's numbers and messages are parsed, so its language is fixed; and
		// nothing of the agent's environment, which holds its key, reaches it.
		env: []string{
			"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"LC_ALL=C", "LANG=C", "HOME=/", "TERM=dumb",
		},
		kill: func(pgid int, sig syscall.Signal) {
			// The only failure is that the group is gone, which is what is wanted.
			_ = syscall.Kill(-pgid, sig)
		},
		slots: slots{byPath: map[string]*slot{}},
	}
}

// Hung returns the abandoned copies that have not died yet.
func (e *Exec) Hung() []HungError { return e.slots.hung() }

// Run implements Runner. Copies of one program take turns; the wait for its turn
// is part of the command's deadline.
func (e *Exec) Run(ctx context.Context, cmd Command) (Result, error) {
	res := Result{Argv: cmd.Argv(), ExitCode: -1}
	begin := time.Now()
	if cmd.Deadline <= 0 {
		cmd.Deadline = DefaultDeadline
	}
	if cmd.MaxOutput <= 0 {
		cmd.MaxOutput = DefaultMaxOutput
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmd.Deadline, &TimeoutError{Argv: res.Argv, Deadline: cmd.Deadline})
	defer cancel()
	c, err := e.acquire(ctx, cmd)
	if err != nil {
		return res, err
	}
	stdout, stderr, err := c.captures(cmd)
	if err != nil {
		c.slot.release()
		return res, fmt.Errorf("run %s: %w", cmd, err)
	}
	go c.own()
	err = c.await(ctx)
	stdout.finish(drainGrace)
	stderr.finish(drainGrace)
	res.Stdout, res.Stderr = stdout.bytes(), stderr.bytes()
	res.Truncated = stdout.cut || stderr.cut
	res.Duration = time.Since(begin)
	if err != nil {
		return res, fmt.Errorf("run %s: %w", cmd, err)
	}
	res.ExitCode = c.exitCode()
	return res, nil
}

// acquire finds the tool and makes a child of it, which holds the slot, but is
// not started and has no files yet.
func (e *Exec) acquire(ctx context.Context, cmd Command) (*child, error) {
	path, err := e.Find(cmd.Name)
	if err != nil {
		return nil, err
	}
	slot := e.slots.of(path)
	if err := slot.acquire(ctx); err != nil {
		return nil, fmt.Errorf("run %s: %w", cmd, err)
	}
	if ctx.Err() != nil { // the select between the two is a coin toss
		slot.release()
		return nil, fmt.Errorf("run %s: %w", cmd, context.Cause(ctx))
	}
	c := exec.Command(path, cmd.Args...) //nolint:noctx,gosec // a context would wait for a child that cannot die; running named programs is this package's job
	c.Env = append(append([]string{}, e.env...), cmd.Env...)
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Chroot: e.hostRoot}
	return &child{
		path: path, cmd: c, slot: slot, kill: e.kill, begin: time.Now(),
		started: make(chan struct{}), exited: make(chan struct{}),
	}, nil
}

// captures connects the child's streams to memory.
func (c *child) captures(cmd Command) (stdout, stderr *capture, err error) {
	if stdout, err = newCapture(cmd.MaxOutput); err != nil {
		return nil, nil, err
	}
	if stderr, err = newCapture(cmd.MaxOutput); err != nil {
		stdout.abort()
		return nil, nil, err
	}
	if cmd.Input != "" {
		in, err := inputFile(cmd.Input)
		if err != nil {
			stdout.abort()
			stderr.abort()
			return nil, nil, err
		}
		c.cmd.Stdin, c.files = in, append(c.files, in)
	}
	c.cmd.Stdout, c.cmd.Stderr = stdout.w, stderr.w
	c.files = append(c.files, stdout.w, stderr.w)
	return stdout, stderr, nil
}

// await waits for the child's end, and past the end of ctx sees to it. It
// returns nil when the child ended by itself.
func (c *child) await(ctx context.Context) error {
	select {
	case <-c.exited:
		return c.startErr
	case <-ctx.Done():
		return c.end(context.Cause(ctx))
	}
}
