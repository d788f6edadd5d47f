package cdi

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"
)

// Edits are what devices change in a container, in words every engine knows.
type Edits struct {
	Nodes  []Node
	Mounts []Mount
	Env    []string // NAME=value, each name once
	Groups []uint32 // see Catalog.Groups
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

// UntranslatableError names what an engine without CDI cannot be told.
type UntranslatableError struct {
	Name string // of the CDI device that wants it
	What string
}

// Error says so.
func (e *UntranslatableError) Error() string {
	return fmt.Sprintf("CDI device %s: %s cannot be had from a container engine without CDI", e.Name, e.What)
}

// Translate spells out what the selected devices change in a container. An
// *UntranslatableError when that is more than Edits can say: nothing is dropped silently.
// Where a vendor's own spec says more, as one with hooks does, this package's recipe for
// the same devices serves instead.
func (c *Catalog) Translate(selected []Selection) (Edits, error) {
	edits, err := c.translate(selected, (*entry).spec)
	if _, untranslatable := errors.AsType[*UntranslatableError](err); !untranslatable {
		return edits, err
	}
	if edits, errPlain := c.translate(selected, (*entry).plainSpec); errPlain == nil {
		return edits, nil
	}
	return Edits{}, err
}

func (c *Catalog) translate(selected []Selection, of func(*entry) *specs.Spec) (Edits, error) {
	all, err := c.edits(selected, of)
	if err != nil {
		return Edits{}, err
	}
	var names []string
	for _, s := range selected {
		names = append(names, s.Name)
	}
	t := translation{name: strings.Join(names, ", "), host: c.host}
	return t.translate(all)
}

// othersMayUse are the bits that let anybody read and write a node.
const othersMayUse = 0o006

// Groups are those that a container's process must be in, whoever it runs as, to use the
// selected devices: of each node that is closed to others.
func (c *Catalog) Groups(selected []Selection) ([]uint32, error) {
	all, err := c.edits(selected, (*entry).spec)
	return groupsOf(all), err
}

func groupsOf(e specs.ContainerEdits) []uint32 {
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

// Nodes are the device nodes that a container with the selected devices must have.
func (c *Catalog) Nodes(selected []Selection) ([]Node, error) {
	all, err := c.edits(selected, (*entry).spec)
	if err != nil {
		return nil, err
	}
	var nodes []Node
	for _, n := range all.DeviceNodes {
		node, err := c.host.whole(n)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return nodes, nil
}

type translation struct {
	name string
	host host
}

func (t translation) refuse(format string, args ...any) error {
	return &UntranslatableError{Name: t.name, What: fmt.Sprintf(format, args...)}
}

func (t translation) translate(e specs.ContainerEdits) (Edits, error) {
	switch {
	case len(e.Hooks) > 0:
		return Edits{}, t.refuse("the %s hook %s", e.Hooks[0].HookName, strings.Join(e.Hooks[0].Args, " "))
	case len(e.NetDevices) > 0:
		return Edits{}, t.refuse("network device %s", e.NetDevices[0].HostInterfaceName)
	case e.IntelRdt != nil:
		return Edits{}, t.refuse("an Intel RDT class")
	}
	out := Edits{Groups: groupsOf(e)}
	for _, kv := range e.Env {
		out.Env = setEnv(out.Env, kv)
	}
	for _, n := range e.DeviceNodes {
		if err := t.node(&out, n); err != nil {
			return Edits{}, err
		}
	}
	for _, m := range e.Mounts {
		mount, err := t.mount(m)
		if err != nil {
			return Edits{}, err
		}
		out.Mounts = append(out.Mounts, mount)
	}
	return out, nil
}

// node takes a node that an engine would make just so from the host's: of its owner, too.
func (t translation) node(out *Edits, n *specs.DeviceNode) error {
	if n.Type == "p" || n.Permissions == "none" {
		return t.refuse("device node %s (type %q, permissions %q)", n.Path, n.Type, n.Permissions)
	}
	node, err := t.host.whole(n)
	if err != nil {
		return fmt.Errorf("CDI device %s: %w", t.name, err)
	}
	if n.UID != nil || n.GID != nil {
		have, err := t.host.number(t.host.fromEngine(node.HostPath))
		if err != nil {
			return fmt.Errorf("CDI device %s: owner of device node %s: %w", t.name, node.HostPath, plain(err))
		}
		if n.UID != nil && *n.UID != have.uid || n.GID != nil && *n.GID != have.gid {
			return t.refuse("an owner other than on the host for device node %s", n.Path)
		}
	}
	out.Nodes = append(out.Nodes, node)
	return nil
}

// whole is a node with what an engine would take from the host.
func (h host) whole(n *specs.DeviceNode) (Node, error) {
	node := Node{HostPath: n.HostPath, Path: n.Path, Type: n.Type, Major: n.Major, Minor: n.Minor, Permissions: n.Permissions}
	if node.HostPath == "" {
		node.HostPath = node.Path
	}
	if node.Permissions == "" {
		node.Permissions = "rwm" // CDI's default
	}
	if node.Type == "" || node.Major == 0 {
		number, err := h.number(h.fromEngine(node.HostPath))
		if err != nil {
			return node, fmt.Errorf("device node %s: %w", node.HostPath, plain(err))
		}
		node.Type, node.Major, node.Minor = number.kind, number.major, number.minor
	}
	return node, nil
}

// mount knows the options that a plain bind mount has or that make no difference to it:
// setuid programs and device nodes are of no use in a container that has no_new_privs and
// a device cgroup.
func (t translation) mount(m *specs.Mount) (Mount, error) {
	out := Mount{Source: m.HostPath, Target: m.ContainerPath}
	if m.Type != "" && m.Type != "bind" && m.Type != "none" {
		return out, t.refuse("a mount of type %s at %s", m.Type, m.ContainerPath)
	}
	for _, option := range m.Options {
		switch option {
		case "ro":
			out.ReadOnly = true
		case "rw", "bind", "rbind", "private", "rprivate", "nosuid", "nodev":
		default:
			return out, t.refuse("option %s of the mount at %s", option, m.ContainerPath)
		}
	}
	return out, nil
}

// setEnv sets a variable, in its place if it is there.
func setEnv(env []string, kv string) []string {
	name, _, _ := strings.Cut(kv, "=")
	if i := slices.IndexFunc(env, func(have string) bool { return strings.HasPrefix(have, name+"=") }); i >= 0 {
		env[i] = kv
		return env
	}
	return append(env, kv)
}
