// Package process tells the processes of this machine apart, whose pids the kernel uses
// again. It reads /proc and nothing else: it signals nobody, waits for nobody and starts no
// goroutine.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is one process, also after its end, when its pid may be another's.
type Process struct {
	PID int `json:"pid"`
	// Ticks is when it was started, in the kernel's clock ticks since the machine was booted:
	// starttime of proc(5), which no step of the clock changes.
	Ticks uint64 `json:"ticks"`
}

// Table is a /proc. Its pids are those of the namespace of who mounted it.
type Table struct {
	Root string // "/proc"
}

// Of is the process with the pid, if its cgroup says that it is in the container. With a pid
// of another machine or namespace it is not, and under a runtime that names cgroups otherwise
// nothing is known.
func (t Table) Of(containerID string, pid int) (Process, bool) {
	before, err := t.find(pid)
	if err != nil {
		return Process{}, false
	}
	cgroups, err := os.ReadFile(t.file(pid, "cgroup"))
	if err != nil || !names(cgroups, containerID) {
		return Process{}, false
	}
	after, err := t.find(pid)
	return after, err == nil && after == before
}

// Gone tells whether the process has ended and was waited for. What cannot be read is not
// gone.
func (t Table) Gone(p Process) bool {
	now, err := t.find(p.PID)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return now != p
}

func (t Table) find(pid int) (Process, error) {
	stat, err := os.ReadFile(t.file(pid, "stat"))
	if err != nil {
		return Process{}, err
	}
	ticks, err := startOf(stat)
	return Process{PID: pid, Ticks: ticks}, err
}

func (t Table) file(pid int, name string) string {
	return filepath.Join(t.Root, strconv.Itoa(pid), name)
}

// startTime is the place of starttime among the fields after the program's name.
const startTime = 22 - 3

// startOf reads when a process was started. Its name, in parentheses, is its own choice and
// may hold blanks and parentheses.
func startOf(stat []byte) (uint64, error) {
	end := bytes.LastIndexByte(stat, ')')
	fields := bytes.Fields(stat[end+1:])
	if end < 0 || len(fields) <= startTime {
		return 0, fmt.Errorf("read the start of a process: %d fields after its name", len(fields))
	}
	return strconv.ParseUint(string(fields[startTime]), 10, 64)
}

// names tells whether one of the cgroups is the container's, or below it: its last part is
// the id, or the scope that systemd is asked for.
func names(cgroups []byte, containerID string) bool {
	for line := range strings.Lines(string(cgroups)) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			if part == containerID || strings.HasSuffix(part, "-"+containerID+".scope") {
				return true
			}
		}
	}
	return false
}
