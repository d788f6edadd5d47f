package cdi

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/symlink"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/specs-go"
)

// host is the machine's file system.
type host struct {
	root       string // where this process sees it; "/" or a directory
	engineRoot string // where the container engine sees it
	// number is what a device node stands for. Only tests replace it: they cannot make
	// the nodes of a vendor's driver.
	number func(path string) (deviceNumber, error)
}

type deviceNumber struct {
	kind         string // "c" or "b", as CDI has it
	major, minor int64
	mode         fs.FileMode
	uid, gid     uint32
}

var errNoDeviceNode = errors.New("not a device node")

func numberOf(name string) (deviceNumber, error) {
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		return deviceNumber{}, err
	}
	n := deviceNumber{
		major: int64(unix.Major(st.Rdev)), minor: int64(unix.Minor(st.Rdev)),
		mode: fs.FileMode(st.Mode & 0o777), uid: st.Uid, gid: st.Gid,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		n.kind = "c"
	case unix.S_IFBLK:
		n.kind = "b"
	default:
		return deviceNumber{}, errNoDeviceNode
	}
	return n, nil
}

// at is where this process finds the host's file name.
func (h host) at(name string) string { return filepath.Join(h.root, name) }

// forEngine is how the engine calls the host's file name.
func (h host) forEngine(name string) string { return path.Join("/", h.engineRoot, name) }

// fromEngine is where this process finds what the engine calls name.
func (h host) fromEngine(name string) string {
	return h.at(strings.TrimPrefix(name, path.Join("/", h.engineRoot)))
}

// node describes a device node. It may be used but not made in the container: making
// needs no right there, the engine has done it. Its owner is spelled out: left to engines,
// it is the container's user with some (containerd) and root with others (Docker).
func (h host) node(name string) (*specs.DeviceNode, error) {
	n, err := h.number(h.at(name))
	if err != nil {
		return nil, plain(err)
	}
	node := &specs.DeviceNode{
		Path: name, Type: n.kind, Major: n.major, Minor: n.minor, FileMode: &n.mode, Permissions: "rw",
		UID: &n.uid, GID: &n.gid,
	}
	if at := h.forEngine(name); at != name {
		node.HostPath = at
	}
	return node, nil
}

// mount binds a file or directory to the same path, read-only. What is bound is what the
// host's links lead to.
func (h host) mount(name string) (*specs.Mount, error) {
	found, err := h.follow(name)
	if err != nil {
		return nil, err
	}
	return bind(h.forEngine(found), name), nil
}

// bind has no options that Docker's own mounts lack, so that a container is the same
// whoever makes it. Neither setuid programs nor device nodes below it could be used
// anyway: containers have no_new_privs and a device cgroup.
func bind(source, target string) *specs.Mount {
	return &specs.Mount{HostPath: source, ContainerPath: target, Options: []string{"ro", "rbind", "rprivate"}}
}

// follow returns the path without links of a host's file that exists.
func (h host) follow(name string) (string, error) {
	found, err := symlink.FollowSymlinkInScope(h.at(name), filepath.Clean(h.root))
	if err == nil {
		_, err = os.Lstat(found)
	}
	if err != nil {
		return "", plain(err)
	}
	return path.Join("/", strings.TrimPrefix(found, filepath.Clean(h.root))), nil
}

// list returns the names in a directory of the host that match one of the patterns.
func (h host) list(dir string, patterns ...string) ([]string, error) {
	found, err := h.follow(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(h.at(found))
	if err != nil {
		return nil, plain(err)
	}
	var names []string
	for _, e := range entries {
		if slices.ContainsFunc(patterns, func(p string) bool { ok, err := path.Match(p, e.Name()); return ok && err == nil }) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// maxRead is far above the largest file that is read, a Jetson's list of 30 KiB.
const maxRead = 1 << 20

// read returns a small file of the host.
func (h host) read(name string) ([]byte, error) {
	f, err := os.Open(h.at(name))
	if err != nil {
		return nil, plain(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	switch {
	case err != nil:
		return nil, plain(err)
	case len(data) > maxRead:
		return nil, fmt.Errorf("larger than %d bytes", maxRead)
	}
	return data, nil
}

// plain takes the path out of a file system's error: it is this process's, and who reads
// the message knows the host's.
func plain(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
