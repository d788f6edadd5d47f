package tool

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// child is one running copy of a tool. One goroutine, own, starts and reaps it.
type child struct {
	// Configuration: never changes.
	path  string
	cmd   *exec.Cmd
	files []*os.File // of the child: ours are closed once it has started
	slot  *slot
	kill  func(pgid int, sig syscall.Signal)
	begin time.Time

	// startErr is valid once started is closed, cmd.ProcessState once exited is.
	startErr error
	started  chan struct{}
	exited   chan struct{} // closed once it is reaped, or was not started

	mu        sync.Mutex
	alive     bool // it is started and not reaped: its number is its own
	abandoned bool
}

// own runs the child from start to reaping, and then frees its slot. Starting
// can block as well, on a program file of a dead network mount.
func (c *child) own() {
	err := c.cmd.Start()
	for _, f := range c.files {
		_ = f.Close() // the child has its own handles
	}
	c.mu.Lock()
	c.startErr, c.alive = err, err == nil
	close(c.started)
	late := c.abandoned
	c.mu.Unlock()
	if err == nil {
		if late { // it started after all, when nobody waits any more
			c.signal(syscall.SIGKILL)
		}
		awaitExit(c.cmd.Process.Pid)
		// While the leader is a zombie its group's number cannot be reused: now
		// is the time to end what it left behind.
		c.signal(syscall.SIGKILL)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alive {
		_ = c.cmd.Wait() // at once; a non-zero status is in ProcessState
		c.alive = false
	}
	c.slot.release()
	close(c.exited)
}

// awaitExit blocks until the process has ended, without reaping it.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// signal sends sig to the child's group, if there is one.
func (c *child) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.alive {
		c.kill(c.cmd.Process.Pid, sig)
	}
}

// end sees to it that the child ends, and returns cause; when it does not, it is
// abandoned and a *HungError returned.
func (c *child) end(cause error) error {
	for _, step := range []struct {
		sig   syscall.Signal
		grace time.Duration
	}{{syscall.SIGTERM, termGrace}, {syscall.SIGKILL, killGrace}} {
		c.signal(step.sig)
		if c.exitedWithin(step.grace) {
			return cause
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.exitedWithin(0) {
		return cause
	}
	hung := &HungError{Path: c.path, Since: c.begin}
	if c.alive {
		hung.PID = c.cmd.Process.Pid
	}
	c.abandoned = true
	c.slot.abandon(hung)
	return hung
}

func (c *child) exitedWithin(d time.Duration) bool {
	select {
	case <-c.exited:
		return true
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c.exited:
		return true
	case <-timer.C:
		return false
	}
}

// exitCode is the exit status, or 128+n when signal n ended the process, as a
// shell counts. Valid once exited is closed, of a child that was started.
func (c *child) exitCode() int {
	s := c.cmd.ProcessState
	if ws, ok := s.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return s.ExitCode()
}
