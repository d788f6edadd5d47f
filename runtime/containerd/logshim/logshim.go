// Package logshim is the process that containerd's shim starts beside every task of
// ours, "heteroflow-log-shim log-shim DIR". It owns two jobs, because it is the one process
// that is there from before the task's first byte until after its end, whatever happens
// to the agent and to containerd:
//
//   - it writes the task's output to the rotating files in DIR, and never makes the task
//     wait for a full disk;
//   - it asks the shim how the task ended and records that in DIR. containerd 1.7 and 2
//     forget it when they are restarted before anyone has asked them.
//
// It must never end before its pipes do: the task would be killed by its next write. And
// it must stay light: each start of a task waits for it, on a program of its own or on the
// agent's, and each running task keeps one.
//
// It runs a goroutine for each pipe and one that waits for the exit; [Main] waits for
// the first two and leaves the third when the shim has gone.
package logshim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/errdefs"

	"github.com/heteroflow/node-agent/runtime/containerd/logfile"
	"github.com/heteroflow/node-agent/runtime/containerd/record"
	"github.com/heteroflow/node-agent/runtime/containerd/shim"
)

// Command is the first argument of the log binary; the second is the container's
// directory. The shim can pass no more than one name and one value in a fixed order.
const Command = "log-shim"

// drainTime is how long the pipes may go on after the shim asked to end, within the 12 s
// it waits before it kills.
const drainTime = 8 * time.Second

// recordTime is how long the record of the exit may take once the pipes are closed: the
// shim has answered before it closes them, and only a slow disk is left.
const recordTime = 3 * time.Second

// Main runs the log shim for a container's directory and returns the exit status. Its
// environment and open files are those containerd's shim gives a log binary.
func Main(dir string) int {
	// SIGTERM means that the task is being deleted: what is in the pipes still counts.
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	signal.Ignore(syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)

	id := os.Getenv("CONTAINER_ID")
	stdout, stderr, ready := os.NewFile(3, "stdout"), os.NewFile(4, "stderr"), os.NewFile(5, "ready")
	if id == "" || stdout == nil || stderr == nil || ready == nil {
		fmt.Fprintf(os.Stderr, "%s: to be started by containerd's shim only\n", Command)
		return 2
	}

	// The shim waits for this byte before it creates the task. What the task writes before
	// the pipes are read stays in them.
	_, writeErr := ready.Write([]byte{0})
	if err := errors.Join(writeErr, ready.Close()); err != nil {
		return 1
	}

	run, err := record.Dir(dir).Run()
	if err != nil {
		// Losing output is better than killing the task that writes it.
		run = record.Run{LogMaxBytes: 1 << 20, LogMaxFiles: 1}
	}
	out := logfile.NewWriter(record.Dir(dir).Logs(), run.LogMaxBytes, run.LogMaxFiles)
	if err != nil {
		out.Write(logfile.Stderr, fmt.Appendf(nil, "[how this task ends cannot be recorded: %v]\n", err))
	}

	drained := make(chan struct{})
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		if run.ID != "" {
			recordExit(drained, record.Dir(dir), run.ID, id)
		}
	}()
	drain(out, stdout, stderr, terminated)
	close(drained)
	select {
	case <-recorded:
	case <-time.After(recordTime):
	}
	if out.Close() != nil {
		return 1
	}
	return 0
}

// drain copies both pipes to the end, or for drainTime after the signal.
func drain(out *logfile.Writer, stdout, stderr io.Reader, terminated <-chan os.Signal) {
	var wg sync.WaitGroup
	wg.Go(func() { copyStream(out, logfile.Stdout, stdout) })
	wg.Go(func() { copyStream(out, logfile.Stderr, stderr) })
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-terminated:
		select {
		case <-done:
		case <-time.After(drainTime):
		}
	}
}

func copyStream(out *logfile.Writer, stream logfile.Stream, r io.Reader) {
	buf := make([]byte, 64<<10) // a whole pipe
	for {
		n, err := r.Read(buf)
		if n > 0 {
			out.Write(stream, buf[:n])
		}
		if err != nil {
			return // io.EOF: the task and the shim have closed it
		}
	}
}

// findEvery is how often the shim is asked for a task that it is still making.
const findEvery = 20 * time.Millisecond

// recordExit waits for the task's end and records it, trying again while the disk does
// not take it. It gives up when the shim has gone, or has a task no more whose output is
// drained: then nobody knows.
func recordExit(drained <-chan struct{}, dir record.Dir, run, id string) {
	ctx := context.Background() // the process ends when this has had its time
	// The working directory of the shim and its children is the task's bundle.
	client, err := shim.Dial(ctx, ".")
	if err != nil {
		return
	}
	defer func() { _ = client.Close() }() // nothing is left to be said
	code, at, err := client.Wait(ctx, id)
	for errdefs.IsNotFound(err) && pause(findEvery, drained) {
		code, at, err = client.Wait(ctx, id)
	}
	if err != nil {
		return
	}
	exit := record.Exit{Run: run, Code: code, FinishedAt: at}
	if kills, err := client.OOMKills(ctx, id); err == nil {
		exit.OOMKilled = new(kills > 0)
	}
	for dir.End(exit) != nil && pause(time.Second, drained) {
	}
}

// pause waits, and tells whether to go on.
func pause(d time.Duration, until <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-until:
		return false
	}
}
