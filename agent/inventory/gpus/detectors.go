package gpus

import (
	"path/filepath"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/ascend"
	"github.com/heteroflow/node-agent/gpu/biren"
	"github.com/heteroflow/node-agent/gpu/cambricon"
	"github.com/heteroflow/node-agent/gpu/enflame"
	"github.com/heteroflow/node-agent/gpu/hygon"
	"github.com/heteroflow/node-agent/gpu/iluvatar"
	"github.com/heteroflow/node-agent/gpu/kunlun"
	"github.com/heteroflow/node-agent/gpu/metax"
	"github.com/heteroflow/node-agent/gpu/musa"
	"github.com/heteroflow/node-agent/gpu/nvidia"
	"github.com/heteroflow/node-agent/gpu/tool"
	"github.com/heteroflow/node-agent/gpu/virtual"
)

// Detectors returns a detector of each vendor in the order of the priority
// chain, without the virtual one. dev is the directory of the device nodes that
// belong to what r runs; "" where there are none, as for a recording. NVIDIA's
// driver is asked through the given sources first, then through nvidia-smi.
func Detectors(r tool.Runner, dev string, sources ...nvidia.Source) []gpu.Detector {
	return []gpu.Detector{
		musa.New(r),
		hygon.New(r),
		cambricon.New(r),
		biren.New(r),
		ascend.New(r, dev),
		kunlun.New(r),
		iluvatar.New(r),
		nvidia.New(r, append(sources, nvidia.NewText(r))...),
		metax.New(r),
		enflame.New(r),
	}
}

// Fallback returns the detector that stands last in the chain: it finds the one
// virtual device of a node on which nothing else is found.
func Fallback() gpu.Detector { return virtual.New() }

// devices returns the directory of the device nodes of the host whose root file
// system is at hostRoot.
func devices(hostRoot string) string { return filepath.Join("/", hostRoot, "dev") }
