package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/heteroflow/node-agent/test/workload/report"
)

// maxForks keeps a typing error from taking a machine without a pids limit
// down.
const maxForks = 10000

func forkBomb(_ context.Context, s streams, args []string) (int, error) {
	flags := newFlags("forkbomb", s)
	most := flags.Int("max", 0, "`number` of children to try, at most 10000")
	if err := parse(flags, args, 0, 0); err != nil {
		return exitUsage, err
	}
	if *most < 1 || *most > maxForks {
		return exitUsage, fmt.Errorf("%w: --max is within 1..%d", errUsage, maxForks)
	}
	started, refused := forkAndReap(*most)
	forks := report.Forks{Started: started, Max: *most}
	if refused != 0 {
		forks.Error = refused.Error()
	}
	return exitOK, printJSON(s.out, forks)
}

// forkAndReap forks idle children until there are most of them or the kernel
// refuses, ends them all and returns how many there were.
//
// At the pids limit the Go runtime dies if it needs one more thread. So the
// collector, which starts threads, is off until the children are reaped, and
// only raw system calls, which never wake the scheduler, are made.
func forkAndReap(most int) (started int, refused syscall.Errno) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.LockOSThread() // the children die with this thread
	defer runtime.UnlockOSThread()
	children := make([]uintptr, 0, most)
	for len(children) < most {
		pid, errno := forkIdle()
		if errno != 0 {
			refused = errno
			break
		}
		children = append(children, pid)
	}
	for _, pid := range children {
		_, _, _ = syscall.RawSyscall(syscall.SYS_KILL, pid, uintptr(syscall.SIGKILL), 0)
	}
	for _, pid := range children {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_WAIT4, pid, 0, 0, 0, 0, 0)
	}
	return len(children), refused
}

// forkIdle forks a child of one thread that waits to be killed. The child is a
// copy of a Go process without its runtime's threads: it may only make raw
// system calls and must not grow its stack.
//
//go:norace
func forkIdle() (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 || pid != 0 {
		return pid, errno
	}
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
	for {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0) // no descriptors, no timeout: waits
	}
}
