// Package e2e runs the agent as a process of its own against the reference control plane,
// a private registry and the real container daemon of this machine.
package e2e

import (
	"testing"

	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/cluster"
	"github.com/heteroflow/node-agent/test/stage"
)

var shared = cluster.NewKit()

func TestMain(m *testing.M) { shared.Main(m) }

// newWorld makes a control plane with a node on Docker.
func newWorld(t *testing.T, features devserver.Features, settings ...string) *cluster.World {
	t.Helper()
	return newWorldOn(t, runtime.Docker, features, settings...)
}

// runtimes are the daemons that what tasks live through is tested on.
var runtimes = []runtime.Name{runtime.Docker, runtime.Containerd}

func newWorldOn(t *testing.T, on runtime.Name, features devserver.Features, settings ...string) *cluster.World {
	t.Helper()
	return shared.New(t, cluster.Options{Place: stage.Place{Kind: on}, Features: features, Settings: settings})
}
