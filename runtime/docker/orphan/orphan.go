// Package orphan finds and ends the processes of containers from outside of the daemon
// that runs them: what lives of a container that its daemon does not know to run. It knows a
// container's processes by the kernel's word on their control groups, in whose path the
// container's id stands, under whichever driver and version of cgroups; and the container's
// shim by its arguments. It touches no other process, and starts no goroutines.
package orphan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// maxBytes bounds what is read of one file of a process.
const maxBytes = 64 << 10

// ids are what Docker's are.
var ids = regexp.MustCompile(`[0-9a-f]{64}`)

// Scan returns the processes of each container, by its id. proc is where the kernel's
// process file system is mounted.
func Scan(proc string) (map[string][]int, error) {
	dir, err := os.Open(proc)
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	defer func() { _ = dir.Close() }() // it was only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	found := make(map[string][]int)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		for _, id := range containersOf(proc, pid) {
			found[id] = append(found[id], pid)
		}
	}
	return found, nil
}

// containersOf returns the ids of the containers that a process belongs to: an outer one
// too, where one runs in another. A process that has ended belongs to none, though it may
// wait for its parent to notice.
func containersOf(proc string, pid int) (found []string) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	stat := read(filepath.Join(dir, "stat"))
	_, state, ok := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" "))
	if !ok || bytes.HasPrefix(state, []byte("Z")) || bytes.HasPrefix(state, []byte("X")) {
		return nil
	}
	for _, id := range ids.FindAll(read(filepath.Join(dir, "cgroup")), -1) {
		found = append(found, string(id))
	}
	if id := served(bytes.Split(read(filepath.Join(dir, "cmdline")), []byte{0})); id != "" {
		found = append(found, id)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// served is the container that a shim of containerd's serves; none where the arguments are
// not a shim's. The same program, told to delete, clears up after a shim that has died.
func served(args [][]byte) string {
	if slices.ContainsFunc(args, func(arg []byte) bool { return string(arg) == "delete" }) {
		return ""
	}
	if !bytes.HasPrefix([]byte(filepath.Base(string(args[0]))), []byte("containerd-shim")) {
		return ""
	}
	for i, arg := range args[:len(args)-1] {
		if string(arg) == "-id" && len(args[i+1]) == 64 && ids.Match(args[i+1]) {
			return string(args[i+1])
		}
	}
	return ""
}

// read is the beginning of a file; nothing when the process has gone.
func read(name string) []byte {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxBytes))
	if err != nil {
		return nil
	}
	return data
}

// again is the pause before another look at what was killed.
const again = 20 * time.Millisecond

// End kills the processes of a container and waits until they have gone. Its error, when ctx
// ends before that, names those that are left.
func End(ctx context.Context, proc, id string) error {
	for {
		all, err := Scan(proc)
		if err != nil {
			return err
		}
		pids := all[id]
		if len(pids) == 0 {
			return nil
		}
		var errs []error
		for _, pid := range pids {
			errs = append(errs, kill(proc, pid, id))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes %d of container %s are still there: %w", pids, id, errors.Join(append(errs, ctx.Err())...))
		case <-time.After(again):
		}
	}
}

// kill kills the process if it is the container's. Its number may have become another's since
// it was found, and cannot once there is a handle on it.
func kill(proc string, pid int, id string) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return fmt.Errorf("find process %d: %w", pid, err)
	}
	defer func() { _ = p.Release() }() // never fails
	if !slices.Contains(containersOf(proc, pid), id) {
		return nil
	}
	if err := p.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}
