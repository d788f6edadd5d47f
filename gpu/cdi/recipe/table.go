package recipe

import (
	"slices"

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
)

// table holds a recipe per vendor. The facts stand, with their sources, in the vendors'
// packages. Libraries that an image brings along itself are not mounted.
var table = map[gpu.Vendor]recipe{
	gpu.NVIDIA: {
		cards:  []cardNode{{pattern: nvidia.CardNode, number: byNVIDIAsDriver}},
		shared: nvidia.SharedNodes,
		mounts: nvidia.Sockets,
		env:    nvidiaEnv,
		more:   addNVIDIADriver,

		platform: nvidiaPlatform,
	},
	gpu.Ascend: {
		cards:      []cardNode{{pattern: ascend.ChipNode, number: byMinor}},
		shared:     slices.Concat(ascend.SharedNodes, ascend.SoCNodes),
		sharedDirs: ascend.SharedNodeDirs,
		mounts:     ascend.Mounts,
	},
	gpu.Hygon: {
		dri: hygon.CardNodesDir, driRequired: true,
		shared: hygon.SharedNodes,
		mounts: hygon.Mounts,
	},
	gpu.Cambricon: {
		cards: []cardNode{
			{pattern: cambricon.CardNode, number: byMinor},
			{pattern: cambricon.CardExtraNode, number: byMinor, optional: true},
		},
		shared: cambricon.SharedNodes,
		mounts: cambricon.Mounts,
	},
	gpu.Kunlun: {
		cards:  []cardNode{{pattern: kunlun.CardNode, number: byMinor}},
		shared: kunlun.SharedNodes,
		mounts: kunlun.Mounts,
	},
	gpu.MUSA: {
		cards:     []cardNode{{pattern: musa.CardNode, number: byIndex}},
		dri:       musa.CardNodesDir,
		mounts:    musa.Mounts,
		libraries: musa.Libraries,
	},
	gpu.Iluvatar: {
		cards:  []cardNode{{pattern: iluvatar.CardNode, number: byMinor}},
		shared: iluvatar.SharedNodes,
	},
	gpu.MetaX: {
		dri: metax.CardNodesDir, driRequired: true,
		shared: metax.SharedNodes,
		mounts: metax.Mounts,
	},
	gpu.Enflame: {
		cards:     []cardNode{{pattern: enflame.CardNode, number: byEnflamesDirectory}},
		shared:    enflame.SharedNodes,
		mounts:    enflame.Mounts,
		libraries: enflame.Libraries,
	},
	gpu.Biren: {
		cards:  []cardNode{{pattern: biren.CardNode, number: byBirensClass}},
		shared: biren.SharedNodes,
		mounts: biren.Mounts,
	},
	gpu.Virtual: {},
}
