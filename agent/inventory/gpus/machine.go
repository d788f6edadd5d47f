package gpus

import (
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/nvidia/nvml"
	"github.com/heteroflow/node-agent/gpu/pci"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// Machine is this machine, as far as its accelerators go.
type Machine struct {
	Runner tool.Runner // runs the vendors' tools
	Dev    string      // the directory of their device nodes
	Sysfs  string      // where the PCI bus is seen

	// Helper asks NVIDIA's driver where the program heteroflow-nvml is installed;
	// nil: nobody but nvidia-smi does. Close ends it.
	Helper *nvml.Client

	// SeesAllCards says that every card on the bus is the agent's to see. An
	// agent in a container without the host's root has the tools and the nodes of
	// the cards it was given, but sees the whole bus: sysfs is not namespaced.
	SeesAllCards bool
}

// NewMachine returns the machine. hostRoot is where the host's root file system
// is mounted for an agent in a container; "" on the host itself. version is the
// agent's own. It starts nothing yet.
func NewMachine(hostRoot, version string, log *zap.Logger) Machine {
	return Machine{
		Runner: tool.NewExec(hostRoot), Dev: devices(hostRoot), Sysfs: pci.DefaultSysfs,
		Helper:       nvml.New(nvml.Config{HostRoot: hostRoot, Version: version, Log: log}),
		SeesAllCards: hostRoot != "" || !inContainer("/", os.Getenv),
	}
}

// Detectors returns the detectors of all vendors on this machine.
func (m Machine) Detectors() []gpu.Detector {
	if m.Helper == nil {
		return Detectors(m.Runner, m.Dev)
	}
	return Detectors(m.Runner, m.Dev, m.Helper)
}

// Close ends what still runs for the detectors, once nobody asks them any more.
func (m Machine) Close() error {
	if m.Helper == nil {
		return nil
	}
	return m.Helper.Close()
}

// Registry returns a registry of the given detectors on this machine. The
// remembered cards last as long as it.
func (m Machine) Registry(detectors []gpu.Detector) (*gpu.Registry, error) {
	return gpu.NewRegistry(m.config(detectors))
}

func (m Machine) config(detectors []gpu.Detector) gpu.Config {
	return gpu.Config{Detectors: detectors, Sysfs: m.Sysfs, SeesAllCards: m.SeesAllCards}
}

// inContainer reports whether the process runs in a container: by the files that
// Docker and Podman leave in its root, and the variables that systemd-nspawn,
// LXC, Podman ("container") and the kubelet set.
func inContainer(root string, env func(string) string) bool {
	if env("container") != "" || env("KUBERNETES_SERVICE_HOST") != "" {
		return true
	}
	for _, mark := range []string{".dockerenv", "run/.containerenv"} {
		if _, err := os.Lstat(filepath.Join(root, mark)); err == nil {
			return true
		}
	}
	return false
}
