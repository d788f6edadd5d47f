package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func eatMemory(ctx context.Context, s streams, args []string) (int, error) {
	flags := newFlags("eat-memory", s)
	size := flags.Int("mb", 0, "stop at this many `MiB` and hold them (0: take until killed)")
	rate := flags.Int("rate", 0, "`MiB` a second (0: as fast as it goes)")
	child := flags.Bool("child", false, "let a child take the memory and outlive it")
	status := flags.Int("exit", exitOK, "with --child: exit `status` once the child was killed")
	when := flags.String("when", "", "take no memory before there is a file at `PATH`")
	if err := parse(flags, args, 0, 0); err != nil {
		return exitUsage, err
	}
	if *size < 0 || *rate < 0 {
		return exitUsage, fmt.Errorf("%w: --mb and --rate start at 0", errUsage)
	}
	if *when != "" {
		if err := awaitFile(ctx, *when); err != nil && ctx.Err() == nil {
			return exitError, err
		}
	}
	if *child {
		return outliveEater(ctx, s, *size, *rate, *status)
	}
	held := take(ctx, s.out, *size, *rate)
	if ctx.Err() == nil {
		fmt.Fprintf(s.out, "holding %d MiB in process %d\n", len(held), os.Getpid())
		<-ctx.Done()
	}
	runtime.KeepAlive(held)
	return exitTerminated, nil
}

// take allocates chunks of 1 MiB and writes to each of their pages, so that the
// memory is really the process's and not only promised.
func take(ctx context.Context, out io.Writer, size, rate int) [][]byte {
	page := os.Getpagesize()
	var chunks [][]byte
	for (size == 0 || len(chunks) < size) && ctx.Err() == nil {
		if rate > 0 {
			select {
			case <-ctx.Done():
				return chunks
			case <-time.After(time.Second / time.Duration(rate)):
			}
		}
		chunk := make([]byte, 1<<20)
		for i := 0; i < len(chunk); i += page {
			chunk[i] = byte(i/page) | 1
		}
		chunks = append(chunks, chunk)
		if len(chunks)%16 == 0 {
			fmt.Fprintf(out, "took %d MiB\n", len(chunks))
		}
	}
	return chunks
}

// outliveEater runs the eater as a child and exits with status after the kernel
// killed it. Any other end of the child is an error, so that a test without a
// memory limit fails.
func outliveEater(ctx context.Context, s streams, size, rate, status int) (int, error) {
	child := exec.CommandContext(ctx, "/proc/self/exe", "eat-memory",
		"--mb", strconv.Itoa(size), "--rate", strconv.Itoa(rate))
	child.Stdout, child.Stderr = s.out, s.err
	err := child.Run()
	if ctx.Err() != nil {
		return exitTerminated, nil //nolint:nilerr // a stop is not an error
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		wait, ok := exit.Sys().(syscall.WaitStatus)
		if ok && wait.Signaled() && wait.Signal() == syscall.SIGKILL {
			fmt.Fprintf(s.out, "child was killed; exiting %d\n", status)
			return status, nil
		}
	}
	return exitError, fmt.Errorf("run child: ended without being killed: %w", err)
}
