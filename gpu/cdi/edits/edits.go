// Package edits spells out what CDI devices change in a container, in words that a
// container engine knows which does not know CDI, and says which device nodes and groups a
// container with them must have.
//
// What cannot be said in those words is refused by name and never dropped. The only thing
// that it reads is the host's device nodes. It starts no goroutine.
package edits

import (
	"fmt"
	"slices"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
)

// Plain are edits in words every engine knows.
type Plain struct {
	Nodes  []Node
	Mounts []Mount
	Env    []string // NAME=value, each name once
	Groups []uint32 // see Groups
}

// Node is a device node in the container.
type Node struct {
	HostPath    string
	Path        string
	Type        string // "c" or "b"
	Major       int64
	Minor       int64
	Permissions string // of the device cgroup: of "rwm"
}

// Mount binds a file or directory of the host.
type Mount struct {
	Source   string
	Target   string
	ReadOnly bool
}

// othersMayUse are the bits that let anybody read and write a node.
const othersMayUse = 0o006

// Groups are those that a container's process must be in, whoever it runs as, to use what
// the edits give it: of each device node that is closed to others.
func Groups(e specs.ContainerEdits) []uint32 {
	groups := slices.Clone(e.AdditionalGIDs)
	for _, n := range e.DeviceNodes {
		closed := n.FileMode != nil && *n.FileMode&othersMayUse != othersMayUse
		if closed && n.GID != nil && *n.GID != 0 {
			groups = append(groups, *n.GID)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups)
}

// Nodes are the device nodes that a container with the edits must have.
func Nodes(host hostfs.FS, e specs.ContainerEdits) ([]Node, error) {
	var nodes []Node
	for _, n := range e.DeviceNodes {
		node, err := whole(host, n)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

// whole is a node with what an engine would take from the host.
func whole(host hostfs.FS, n *specs.DeviceNode) (Node, error) {
	node := Node{HostPath: n.HostPath, Path: n.Path, Type: n.Type, Major: n.Major, Minor: n.Minor, Permissions: n.Permissions}
	if node.HostPath == "" {
		node.HostPath = node.Path
	}
	if node.Permissions == "" {
		node.Permissions = "rwm" // CDI's default
	}
	if node.Type == "" || node.Major == 0 {
		have, err := host.EngineNode(node.HostPath)
		if err != nil {
			return node, fmt.Errorf("device node %s: %w", node.HostPath, err)
		}
		node.Type, node.Major, node.Minor = have.Type, have.Major, have.Minor
	}
	return node, nil
}
