package hostfs

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/specs-go"
)

// Node is what a device node stands for, and who may use it.
type Node struct {
	Type         string // "c" or "b", as CDI has it
	Major, Minor int64
	Mode         fs.FileMode // the permission bits
	UID, GID     uint32
}

var errNoDeviceNode = errors.New("not a device node")

// kernelNode is what the kernel says of the device node at a path of this process.
func kernelNode(name string) (Node, error) {
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil {
		return Node{}, err
	}
	n := Node{
		Major: int64(unix.Major(st.Rdev)), Minor: int64(unix.Minor(st.Rdev)),
		Mode: fs.FileMode(st.Mode & 0o777), UID: st.Uid, GID: st.Gid,
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR:
		n.Type = "c"
	case unix.S_IFBLK:
		n.Type = "b"
	default:
		return Node{}, errNoDeviceNode
	}
	return n, nil
}

func (h FS) node(at string) (Node, error) {
	read := h.Nodes
	if read == nil {
		read = kernelNode
	}
	n, err := read(at)
	return n, plain(err)
}

// EngineNode is what the device node stands for that the engine calls name.
func (h FS) EngineNode(name string) (Node, error) { return h.node(h.fromEngine(name)) }

// DeviceNode describes a device node as part of a spec. It may be used but not made in the
// container: making needs no right there, the engine has done it. Its owner is spelled out:
// left to engines, it is the container's user with some (containerd) and root with others
// (Docker).
func (h FS) DeviceNode(name string) (*specs.DeviceNode, error) {
	n, err := h.node(h.at(name))
	if err != nil {
		return nil, err
	}
	node := &specs.DeviceNode{
		Path: name, Type: n.Type, Major: n.Major, Minor: n.Minor, FileMode: &n.Mode, Permissions: "rw",
		UID: &n.UID, GID: &n.GID,
	}
	if at := h.toEngine(name); at != name {
		node.HostPath = at
	}
	return node, nil
}
