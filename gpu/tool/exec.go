package tool

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
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
	drainGrace = 200 * time.Millisecond
)

// Exec runs the tools of this machine. It is safe for concurrent use.
type Exec struct {
	hostRoot string
	env      []string
	kill     func(pgid int, sig syscall.Signal) // a seam: tests refuse to kill

	mu   sync.Mutex
	hung map[string]*child // by path: one abandoned copy at most
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
		hung: map[string]*child{},
	}
}

// Hung returns the abandoned copies that have not died yet.
func (e *Exec) Hung() []HungError {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]HungError, 0, len(e.hung))
	for _, h := range e.hung {
		list = append(list, *h.hung)
	}
	return list
}

// child is one running copy. Its owner goroutine (run) starts and reaps it.
type child struct {
	cmd            *exec.Cmd
	stdout, stderr *capture
	started        chan error    // the outcome of the start
	exited         chan struct{} // closed once it is reaped
	hung           *HungError    // set, under Exec.mu, when it is abandoned
}

// Run implements Runner.
func (e *Exec) Run(ctx context.Context, cmd Command) (Result, error) {
	res := Result{Argv: cmd.Argv(), ExitCode: -1}
	if err := ctx.Err(); err != nil {
		return res, err
	}
	path, err := e.Find(cmd.Name)
	if err != nil {
		return res, err
	}
	if h := e.hungCopy(path); h != nil {
		return res, h
	}
	c, err := e.prepare(path, cmd)
	if err != nil {
		return res, fmt.Errorf("run %s: %w", cmd, err)
	}
	begin := time.Now()
	go e.run(path, c)
	err = e.await(ctx, path, cmd, c, begin)
	c.stdout.finish(drainGrace)
	c.stderr.finish(drainGrace)
	res.Stdout, res.Stderr = c.stdout.bytes(), c.stderr.bytes()
	res.Truncated = c.stdout.cut || c.stderr.cut
	res.Duration = time.Since(begin)
	if err != nil {
		return res, err
	}
	res.ExitCode = exitCode(c.cmd.ProcessState)
	return res, nil
}

// prepare makes the child and its pipes.
func (e *Exec) prepare(path string, cmd Command) (*child, error) {
	limit := cmd.MaxOutput
	if limit <= 0 {
		limit = DefaultMaxOutput
	}
	stdout, err := newCapture(limit)
	if err != nil {
		return nil, err
	}
	stderr, err := newCapture(limit)
	if err != nil {
		stdout.abort()
		return nil, err
	}
	c := exec.Command(path, cmd.Args...) //nolint:noctx,gosec // a context would wait for a child that cannot die; running named programs is this package's job
	c.Env = append(append([]string{}, e.env...), cmd.Env...)
	c.Dir = "/"
	c.Stdout, c.Stderr = stdout.w, stderr.w
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Chroot: e.hostRoot}
	if cmd.Input != "" {
		if c.Stdin, err = inputFile(cmd.Input); err != nil {
			stdout.abort()
			stderr.abort()
			return nil, err
		}
	}
	return &child{cmd: c, stdout: stdout, stderr: stderr, started: make(chan error, 1), exited: make(chan struct{})}, nil
}

// run owns the child from start to reaping. Starting can block as well, on a
// program file of a dead network mount, so it is done here too.
func (e *Exec) run(path string, c *child) {
	err := c.cmd.Start()
	c.stdout.started()
	c.stderr.started()
	if f, ok := c.cmd.Stdin.(*os.File); ok {
		_ = f.Close() // a memory file that the child has its own handle of
	}
	c.started <- err
	if err == nil {
		pid := c.cmd.Process.Pid
		if e.abandoned(c) { // it started after all, when nobody waits any more
			e.kill(pid, syscall.SIGKILL)
		}
		awaitExit(pid)
		// While the leader is a zombie its group's number cannot be reused: now
		// is the time to end what it left behind.
		e.kill(pid, syscall.SIGKILL)
		// The status is in ProcessState; what else Wait reports is non-zero exit.
		_ = c.cmd.Wait()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hung[path] == c {
		delete(e.hung, path)
	}
	close(c.exited)
}

// awaitExit blocks until the process has ended, without reaping it.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// await waits for the child's end, and past the deadline sees to it. It returns
// nil when the child ended by itself, else what Run returns.
func (e *Exec) await(ctx context.Context, path string, cmd Command, c *child, begin time.Time) error {
	deadline := cmd.Deadline
	if deadline <= 0 {
		deadline = DefaultDeadline
	}
	timer := time.NewTimer(deadline)
	defer timer.Stop()
	var cause error
	pid := 0
	for started := c.started; cause == nil; {
		select {
		case err := <-started:
			if err != nil {
				return fmt.Errorf("run %s: %w", cmd, err)
			}
			pid, started = c.cmd.Process.Pid, nil
		case <-c.exited:
			select {
			case err := <-started:
				if err != nil {
					return fmt.Errorf("run %s: %w", cmd, err)
				}
			default: // it had been taken from the channel
			}
			return nil
		case <-ctx.Done():
			cause = fmt.Errorf("run %s: %w", cmd, context.Cause(ctx))
		case <-timer.C:
			cause = &TimeoutError{Argv: cmd.Argv(), Deadline: deadline}
		}
	}
	for _, step := range []struct {
		sig   syscall.Signal
		grace time.Duration
	}{{syscall.SIGTERM, termGrace}, {syscall.SIGKILL, killGrace}} {
		if pid != 0 {
			e.kill(pid, step.sig)
		}
		timer.Reset(step.grace)
		select {
		case <-c.exited:
			return cause
		case <-timer.C:
		}
	}
	return e.abandon(path, c, cause, pid, begin)
}

// abandon notes that the copy is stuck, unless it ended at the last moment.
func (e *Exec) abandon(path string, c *child, cause error, pid int, begin time.Time) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-c.exited:
		return cause
	default:
		c.hung = &HungError{Path: path, PID: pid, Since: begin}
		e.hung[path] = c
		return c.hung
	}
}

func (e *Exec) abandoned(c *child) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return c.hung != nil
}

// hungCopy returns the error of the abandoned copy of a program, if there is one.
func (e *Exec) hungCopy(path string) *HungError {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c := e.hung[path]; c != nil {
		return c.hung
	}
	return nil
}

// exitCode is the exit status, or 128+n when signal n ended the process, as a
// shell counts.
func exitCode(s *os.ProcessState) int {
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}
