// Package visibility is the environment variables by which somebody chooses the cards of a
// container or of a process in it: the vendors' container runtimes, and frameworks. The
// agent gives cards in another way, so in its containers only it says what they are.
//
// It is a table; it reads nothing and starts no goroutine.
package visibility

import (
	"fmt"
	"slices"
	"strings"

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
	"github.com/heteroflow/node-agent/gpu/virtual"
)

// variable is an environment variable by which somebody chooses the cards of a container
// or of a process in it.
type variable struct {
	name    string
	vendors []gpu.Vendor
	reader  reader
	// none is the documented word for no card, for a runtime's variable. Empty where none is
	// documented: the vendors' runtimes take that, too, for a container not theirs.
	none string
}

// reader is who looks at a variable.
type reader int

const (
	// byRuntime: a vendor's container runtime or hook adds the cards it names. An image may
	// carry such a variable, and where the vendor's runtime is the engine's default that
	// alone gives it every card.
	byRuntime reader = iota
	// byProcess: a framework uses, of the cards in its container, those it names, counting
	// from 0 in the container.
	byProcess
	// byOther: it chooses cards in some other way, by physical numbers or for parts of
	// cards. The agent never sets it.
	byOther
)

// variables are those of all vendors. Sources are given in the vendors' packages for the
// names taken from there, else: hcu-container-toolkit of HYGON-AI (VHCU, MIG), the runtime
// of gpustack (HYGON, NPU, and a METHERDS that it misspells), Cambricon's device plugin
// (VIRTUAL_DEVICES), ix-device-plugin and ix-container-toolkit of Deep-Spark (IX_REPLICA,
// ILUVATAR_…), EnflameTechnology's gcu documents, HAMi's documents on Biren, and
// nvidia-container-toolkit's docker-specialized.md (NVIDIA_MIG_…, NVIDIA_IMEX_CHANNELS,
// which hand out rights over cards in the same way).
var variables = []variable{
	{name: nvidia.VisibleEnv, vendors: []gpu.Vendor{gpu.NVIDIA}, none: nvidia.VisibleNone},
	{name: "NVIDIA_MIG_CONFIG_DEVICES", reader: byOther},
	{name: "NVIDIA_MIG_MONITOR_DEVICES", reader: byOther},
	{name: "NVIDIA_IMEX_CHANNELS", reader: byOther},
	{name: "CUDA_VISIBLE_DEVICES", vendors: []gpu.Vendor{gpu.NVIDIA, gpu.Iluvatar, gpu.MetaX, gpu.Kunlun}, reader: byProcess},

	{name: ascend.VisibleEnv, vendors: []gpu.Vendor{gpu.Ascend}, none: "void"},
	{name: "ASCEND_RT_VISIBLE_DEVICES", vendors: []gpu.Vendor{gpu.Ascend}, reader: byProcess},
	{name: "NPU_VISIBLE_DEVICES", reader: byOther},

	{name: hygon.VisibleEnv, vendors: []gpu.Vendor{gpu.Hygon}, none: "void"},
	{name: "VHCU_VISIBLE_DEVICES", reader: byOther},
	{name: "MIG_VISIBLE_DEVICES", reader: byOther},
	{name: "HYGON_VISIBLE_DEVICES", reader: byOther},
	{name: "HIP_VISIBLE_DEVICES", vendors: []gpu.Vendor{gpu.Hygon}, reader: byProcess},
	{name: "ROCR_VISIBLE_DEVICES", vendors: []gpu.Vendor{gpu.Hygon}, reader: byProcess},
	{name: "GPU_DEVICE_ORDINAL", reader: byOther},

	{name: cambricon.VisibleEnv, vendors: []gpu.Vendor{gpu.Cambricon}},
	{name: "MLU_VISIBLE_DEVICES", vendors: []gpu.Vendor{gpu.Cambricon}, reader: byProcess},
	{name: "VIRTUAL_DEVICES", reader: byOther},

	{name: kunlun.VisibleEnv, vendors: []gpu.Vendor{gpu.Kunlun}, reader: byProcess},

	{name: musa.VisibleEnv, vendors: []gpu.Vendor{gpu.MUSA}},
	{name: "METHERDS_VISIBLE_DEVICES", reader: byOther},
	{name: "MUSA_VISIBLE_DEVICES", vendors: []gpu.Vendor{gpu.MUSA}, reader: byProcess},

	{name: iluvatar.VisibleEnv, vendors: []gpu.Vendor{gpu.Iluvatar}},
	{name: "ILUVATAR_COREX_VISIBLE_DEVICES", reader: byOther},
	{name: "ILUVATAR_VISIBLE_DEVICES_IDX", reader: byOther},
	{name: "IX_REPLICA_DEVICES", reader: byOther},

	{name: metax.VisibleEnv, vendors: []gpu.Vendor{gpu.MetaX}, reader: byProcess},

	{name: enflame.VisibleEnv, vendors: []gpu.Vendor{gpu.Enflame}},
	{name: enflame.ProcessEnv, vendors: []gpu.Vendor{gpu.Enflame}, reader: byProcess},

	{name: biren.VisibleEnv, vendors: []gpu.Vendor{gpu.Biren}},
	{name: biren.CardsEnv, reader: byOther},

	{name: virtual.CardEnv, reader: byOther},
}

// Chooses tells whether an environment variable chooses cards. Only the agent may set one.
func Chooses(name string) bool {
	return slices.ContainsFunc(variables, func(v variable) bool { return v.name == name })
}

// Env is what the environment of a container with so many devices of each vendor
// must say: to the vendors' runtimes, that there is nothing for them to add, whatever the
// image says; to the process, to use all that it was given. A container without devices is
// given none. A variable that two of the vendors would have differently is not set.
func Env(given map[gpu.Vendor]int) []string {
	var env []string
	for _, v := range variables {
		switch v.reader {
		case byRuntime:
			env = append(env, v.name+"="+v.none)
		case byProcess:
			var counts []int
			for _, vendor := range v.vendors {
				if n := given[vendor]; n > 0 {
					counts = append(counts, n)
				}
			}
			if len(counts) == 1 {
				env = append(env, v.name+"="+ordinals(counts[0]))
			}
		case byOther:
		}
	}
	return env
}

// ordinals are the numbers from 0 to n-1.
func ordinals(n int) string {
	words := make([]string, n)
	for i := range words {
		words[i] = fmt.Sprint(i)
	}
	return strings.Join(words, ",")
}
