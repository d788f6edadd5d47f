package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/heteroflow/node-agent/test/workload/report"
)

func printDevices(_ context.Context, s streams, args []string) (int, error) {
	if err := parse(newFlags("print-devices", s), args, 0, 0); err != nil {
		return exitUsage, err
	}
	nodes, err := deviceNodes("/dev")
	if err != nil {
		return exitError, err
	}
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return exitError, fmt.Errorf("read mounts: %w", err)
	}
	env, err := rawEnvironment()
	if err != nil {
		return exitError, err
	}
	return exitOK, printJSON(s.out, report.Devices{
		Nodes:  nodes,
		Mounts: mountPoints(mountinfo),
		Env:    splitEnvironment(env),
	})
}

// deviceNodes lists the device nodes beneath root without following symbolic
// links.
func deviceNodes(root string) ([]report.Node, error) {
	nodes := []report.Node{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // vanished while we walked, as pseudo-terminals do
			return nil
		case err != nil:
			nodes = append(nodes, report.Node{Path: report.Text(path), Error: err.Error()})
			return nil //nolint:nilerr // the node tells it
		case entry.Type()&fs.ModeDevice == 0:
			return nil
		}
		node, err := inspectNode(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		nodes = append(nodes, node)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	return nodes, nil
}

func inspectNode(path string) (report.Node, error) {
	var stat syscall.Stat_t
	if err := syscall.Lstat(path, &stat); err != nil {
		return report.Node{}, fmt.Errorf("stat %s: %w", path, err)
	}
	node := report.Node{
		Path:  report.Text(path),
		Type:  "char",
		Major: major(stat.Rdev),
		Minor: minor(stat.Rdev),
		Mode:  fmt.Sprintf("%04o", stat.Mode&0o7777),
	}
	if stat.Mode&syscall.S_IFMT == syscall.S_IFBLK {
		node.Type = "block"
	}
	if strings.HasPrefix(filepath.Base(path), "watchdog") {
		node.Error = "not tried: to open a watchdog arms it"
		return node, nil
	}
	probeAccess(&node, path)
	return node, nil
}

// probeAccess opens the node in each way; the device cgroup, the file mode and
// the driver all have a say in it.
func probeAccess(node *report.Node, path string) {
	err := openNode(path, syscall.O_RDWR)
	if err == nil {
		node.Access = "rw"
		return
	}
	node.Error = err.Error()
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		node.Errno = int(errno)
	}
	if openNode(path, syscall.O_RDONLY) == nil {
		node.Access = "r"
	} else if openNode(path, syscall.O_WRONLY) == nil {
		node.Access = "w"
	}
}

func openNode(path string, access int) error {
	fd, err := syscall.Open(path, access|syscall.O_NONBLOCK|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	return syscall.Close(fd)
}

// major and minor take a device number apart as the C library's sysmacros do.
func major(dev uint64) uint32 { return uint32(dev>>8&0xfff | dev>>32&^0xfff) }
func minor(dev uint64) uint32 { return uint32(dev&0xff | dev>>12&^0xff) }

// mountPoints takes the fifth field of every line of mountinfo (proc(5)).
func mountPoints(mountinfo []byte) []report.Text {
	points := []report.Text{}
	for line := range bytes.Lines(mountinfo) {
		if fields := bytes.Fields(line); len(fields) > 4 {
			points = append(points, report.Text(unescapeOctal(fields[4])))
		}
	}
	return points
}

// unescapeOctal undoes the kernel's \040 for a space and its like.
func unescapeOctal(escaped []byte) []byte {
	var plain []byte
	for i := 0; i < len(escaped); i++ {
		if escaped[i] == '\\' && i+3 < len(escaped) {
			if c, ok := octalByte(escaped[i+1 : i+4]); ok {
				plain = append(plain, c)
				i += 3
				continue
			}
		}
		plain = append(plain, escaped[i])
	}
	return plain
}

func octalByte(digits []byte) (byte, bool) {
	value := 0
	for _, d := range digits {
		if d < '0' || d > '7' {
			return 0, false
		}
		value = value<<3 | int(d-'0')
	}
	return byte(value), value <= 0xff
}
