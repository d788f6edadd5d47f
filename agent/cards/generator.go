package cards

import (
	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/agent/inventory/gpus"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi"
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/cdi/recipe"
	"github.com/heteroflow/node-agent/gpu/cdi/spec"
	"github.com/heteroflow/node-agent/gpu/cdi/specfile"
	"github.com/heteroflow/node-agent/gpu/nvidia/nvml"
)

// NewGenerator makes the generator of a machine's specs. Where NVIDIA's helper can be asked
// its specs are NVIDIA's own; the recipes serve while it does not answer.
func NewGenerator(machine gpus.Machine, cfg config.GPU) *cdi.Generator {
	g := &cdi.Generator{Dir: cfg.CDIDir, Host: hostfs.FS{Root: cfg.HostRoot}}
	if machine.Helper != nil {
		g.Sources = map[gpu.Vendor]spec.Source{
			gpu.NVIDIA: &nvml.Specs{Client: machine.Helper, Else: recipe.Source{Host: g.Host}},
		}
	}
	return g
}

// SpecDirs are where container runtimes look for specs, the last one first: that of
// administrators, and the one of the generator.
func SpecDirs(cfg config.GPU) []string { return []string{specfile.StaticDir, cfg.CDIDir} }
