package edits

import (
	"fmt"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
)

// UntranslatableError names what an engine without CDI cannot be told.
type UntranslatableError struct {
	Name string // of the CDI devices that want it
	What string
}

// Error says so.
func (e *UntranslatableError) Error() string {
	return fmt.Sprintf("CDI device %s: %s cannot be had from a container engine without CDI", e.Name, e.What)
}

// Translate spells out the edits of devices, which name names. An *UntranslatableError when
// that is more than Plain can say.
func Translate(host hostfs.FS, name string, e specs.ContainerEdits) (Plain, error) {
	t := translation{name: name, host: host}
	switch {
	case len(e.Hooks) > 0:
		return Plain{}, t.refuse("the %s hook %s", e.Hooks[0].HookName, strings.Join(e.Hooks[0].Args, " "))
	case len(e.NetDevices) > 0:
		return Plain{}, t.refuse("network device %s", e.NetDevices[0].HostInterfaceName)
	case e.IntelRdt != nil:
		return Plain{}, t.refuse("an Intel RDT class")
	}
	out := Plain{Groups: Groups(e)}
	for _, kv := range e.Env {
		out.Env = setEnv(out.Env, kv)
	}
	for _, n := range e.DeviceNodes {
		node, err := t.node(n)
		if err != nil {
			return Plain{}, err
		}
		out.Nodes = append(out.Nodes, node)
	}
	for _, m := range e.Mounts {
		mount, err := t.mount(m)
		if err != nil {
			return Plain{}, err
		}
		out.Mounts = append(out.Mounts, mount)
	}
	return out, nil
}

// translation is that of the edits of some devices.
type translation struct {
	name string
	host hostfs.FS
}

func (t translation) refuse(format string, args ...any) error {
	return &UntranslatableError{Name: t.name, What: fmt.Sprintf(format, args...)}
}

// node takes a node that an engine would make just so from the host's: of its owner, too.
func (t translation) node(n *specs.DeviceNode) (Node, error) {
	if n.Type == "p" || n.Permissions == "none" {
		return Node{}, t.refuse("device node %s (type %q, permissions %q)", n.Path, n.Type, n.Permissions)
	}
	node, err := whole(t.host, n)
	if err != nil {
		return Node{}, fmt.Errorf("CDI device %s: %w", t.name, err)
	}
	if n.UID != nil || n.GID != nil {
		have, err := t.host.EngineNode(node.HostPath)
		if err != nil {
			return Node{}, fmt.Errorf("CDI device %s: owner of device node %s: %w", t.name, node.HostPath, err)
		}
		if n.UID != nil && *n.UID != have.UID || n.GID != nil && *n.GID != have.GID {
			return Node{}, t.refuse("an owner other than on the host for device node %s", n.Path)
		}
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
