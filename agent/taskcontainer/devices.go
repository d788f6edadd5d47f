package taskcontainer

import (
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/lease"
	"github.com/heteroflow/node-agent/gpu/visibility"
	"github.com/heteroflow/node-agent/runtime"
)

// Devices are what a task's cards come to in its container. The zero value is a container
// about whose devices nothing is said.
type Devices struct {
	// Holds are the cards, and parts of cards, that nobody else may have meanwhile.
	Holds []lease.Hold
	// CDI are the names of the devices for a runtime that resolves them; Nodes and Mounts
	// are the same spelled out for one that does not.
	CDI    []string
	Nodes  []runtime.Device
	Mounts []runtime.Mount
	// Groups are those that may use the device nodes.
	Groups []uint32
	// HostShm: the container has the host's /dev/shm, by which it reaches who serves it there.
	HostShm bool
	// Env is what the environment must say: it goes over all that the task and its image
	// say.
	Env []string
	// Expect are the device nodes that the container must have, beside those that every
	// container has.
	Expect []Node
}

// Node is a device node in a container.
type Node struct {
	Path  string `json:"path"`
	Type  string `json:"type"` // "c" or "b"
	Major uint32 `json:"major"`
	Minor uint32 `json:"minor"`
}

// String is for messages.
func (n Node) String() string { return fmt.Sprintf("%s (%s %d:%d)", n.Path, n.Type, n.Major, n.Minor) }

// MismatchError says how the device nodes in a container differ from those it was to get.
type MismatchError struct {
	Missing []Node // it was to get them
	Extra   []Node // nobody gave it these
}

// Error lists them.
func (e *MismatchError) Error() string {
	var parts []string
	for _, list := range []struct {
		what  string
		nodes []Node
	}{{"lacks", e.Missing}, {"has besides", e.Extra}} {
		if len(list.nodes) == 0 {
			continue
		}
		names := make([]string, len(list.nodes))
		for i, n := range list.nodes {
			names[i] = n.String()
		}
		parts = append(parts, list.what+" "+strings.Join(names, ", "))
	}
	return "device nodes: the container " + strings.Join(parts, " and ")
}

// addTo makes the devices part of a container.
func (d Devices) addTo(spec *runtime.Spec) {
	spec.CDIDevices, spec.Devices, spec.Groups = d.CDI, d.Nodes, d.Groups
	spec.Mounts = append(spec.Mounts, d.Mounts...)
	env := slices.DeleteFunc(spec.Env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.ContainsFunc(d.Env, func(own string) bool { return strings.HasPrefix(own, name+"=") })
	})
	if env = append(env, d.Env...); len(env) > 0 {
		spec.Env = env
	}
}

// environment is the task's own, without two kinds of entries: names without a value,
// for which a runtime may fill in its own environment's and hand the task the daemon's
// secrets; and those by which a task would choose its cards itself.
func environment(env []string, log *zap.Logger) []string {
	var kept []string
	for _, kv := range env {
		name, _, ok := strings.Cut(kv, "=")
		switch {
		case !ok || name == "":
			log.Warn("environment entry without a value dropped", zap.String("name", name))
		case visibility.Chooses(name):
			log.Warn("environment entry dropped: which cards a task sees is the agent's to say", zap.String("name", name))
		default:
			kept = append(kept, kv)
		}
	}
	return kept
}
