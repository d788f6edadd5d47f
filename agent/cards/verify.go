package cards

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/agent/taskcontainer"
)

// everywhere are the device nodes of every container (OCI runtime specification, Linux,
// default devices).
var everywhere = []taskcontainer.Node{
	{Path: "/dev/null", Type: "c", Major: 1, Minor: 3},
	{Path: "/dev/zero", Type: "c", Major: 1, Minor: 5},
	{Path: "/dev/full", Type: "c", Major: 1, Minor: 7},
	{Path: "/dev/random", Type: "c", Major: 1, Minor: 8},
	{Path: "/dev/urandom", Type: "c", Major: 1, Minor: 9},
	{Path: "/dev/tty", Type: "c", Major: 5, Minor: 0},
	{Path: "/dev/console", Type: "c", Major: 5, Minor: 1},
	{Path: "/dev/ptmx", Type: "c", Major: 5, Minor: 2},
}

// Verify looks from outside at the device nodes of the container whose first process is
// pid. They must be those of devices and of every container: else the error is a
// *taskcontainer.MismatchError. Any other error says that they could not be looked at, because the
// process has ended, for instance.
func (c *Cards) Verify(pid int, devices taskcontainer.Devices) error {
	found, err := nodesIn(filepath.Join(c.proc, strconv.Itoa(pid), "root"))
	if err != nil {
		return fmt.Errorf("look at the device nodes of process %d: %w", pid, err)
	}
	var wrong taskcontainer.MismatchError
	for _, n := range devices.Expect {
		if !slices.Contains(found, n) {
			wrong.Missing = append(wrong.Missing, n)
		}
	}
	for _, n := range found {
		if !slices.Contains(everywhere, n) && !slices.Contains(devices.Expect, n) {
			wrong.Extra = append(wrong.Extra, n)
		}
	}
	if len(wrong.Missing)+len(wrong.Extra) > 0 {
		return &wrong
	}
	return nil
}

// maxEntries bounds a walk: the process inside may go on making files.
const maxEntries = 10000

var errTooMany = errors.New("too many files in it")

// nodesIn lists the device nodes in the /dev of a container's root. It stays there whatever
// links are in it. File systems on which device nodes are of no use are left out.
func nodesIn(root string) ([]taskcontainer.Node, error) {
	top, err := os.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer func() { _ = top.Close() }() // it was only read
	dir, err := top.OpenRoot("dev")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }() // the same
	var nodes []taskcontainer.Node
	entries := 0
	err = fs.WalkDir(dir.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		entries++
		switch {
		case entries > maxEntries:
			return errTooMany
		case errors.Is(err, fs.ErrNotExist):
			return nil // vanished meanwhile
		case err != nil:
			return err
		case entry.IsDir() && (name == "shm" || name == "mqueue" || name == "pts"):
			return fs.SkipDir
		case entry.Type()&fs.ModeDevice == 0:
			return nil
		}
		node, err := nodeAt(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		nodes = append(nodes, node)
		return err
	})
	return nodes, err
}

func nodeAt(dir *os.Root, name string) (taskcontainer.Node, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return taskcontainer.Node{}, err
	}
	node := taskcontainer.Node{Path: path.Join("/dev", name), Type: "b"}
	if info.Mode()&fs.ModeCharDevice != 0 {
		node.Type = "c"
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		node.Major, node.Minor = unix.Major(st.Rdev), unix.Minor(st.Rdev)
	}
	return node, nil
}
