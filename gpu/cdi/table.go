package cdi

import (
	"slices"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/ascend"
	"github.com/heteroflow/node-agent/gpu/cambricon"
	"github.com/heteroflow/node-agent/gpu/hygon"
	"github.com/heteroflow/node-agent/gpu/iluvatar"
	"github.com/heteroflow/node-agent/gpu/kunlun"
	"github.com/heteroflow/node-agent/gpu/metax"
	"github.com/heteroflow/node-agent/gpu/musa"
	"github.com/heteroflow/node-agent/gpu/nvidia"
)

// virtualEnv tells a task which virtual card it was given: there is nothing else of it.
const virtualEnv = "HETEROFLOW_VIRTUAL_GPU"

// table holds a recipe per vendor. The facts stand, with their sources, in the vendors'
// packages. Libraries that an image brings along itself are not mounted.
var table = map[gpu.Vendor]recipe{
	gpu.NVIDIA: {
		cards:  []cardNode{{pattern: nvidia.CardNode, by: byMinor}},
		shared: nvidia.SharedNodes,
		mounts: nvidia.Sockets,
		env: []string{
			nvidia.VisibleEnv + "=" + nvidia.VisibleNone,
			nvidia.OrderEnv + "=" + nvidia.OrderBus,
		},
		more: addNVIDIADriver,
	},
	gpu.Ascend: {
		cards:      []cardNode{{pattern: ascend.ChipNode, by: byMinor}},
		shared:     slices.Concat(ascend.SharedNodes, ascend.SoCNodes),
		sharedDirs: ascend.SharedNodeDirs,
		mounts:     ascend.Mounts,
	},
	gpu.Hygon: {
		drm: true, drmRequired: true,
		shared: hygon.SharedNodes,
		mounts: hygon.Mounts,
	},
	gpu.Cambricon: {
		cards: []cardNode{
			{pattern: cambricon.CardNode, by: byMinor},
			{pattern: cambricon.CardExtraNode, by: byMinor, optional: true},
		},
		shared: cambricon.SharedNodes,
		mounts: cambricon.Mounts,
	},
	gpu.Kunlun: {
		cards:  []cardNode{{pattern: kunlun.CardNode, by: byMinor}},
		shared: kunlun.SharedNodes,
		mounts: kunlun.Mounts,
	},
	gpu.MUSA: {
		cards:     []cardNode{{pattern: musa.CardNode, by: byIndex}},
		drm:       true,
		mounts:    musa.Mounts,
		libraries: musa.Libraries,
	},
	gpu.Iluvatar: {
		cards:  []cardNode{{pattern: iluvatar.CardNode, by: byMinor}},
		shared: iluvatar.SharedNodes,
	},
	gpu.MetaX: {
		drm: true, drmRequired: true,
		shared: metax.SharedNodes,
		mounts: metax.Mounts,
	},
	// Sources: config/topscloud.json of github.com/EnflameTechnology/gcushare (tool and
	// library), pci.ids and its sysfs (nodes).
	gpu.Enflame: {
		cards:     []cardNode{{pattern: "/dev/gcu%d", by: byMinor}},
		shared:    []string{"/dev/gcuctl"},
		mounts:    []string{"/usr/bin/efsmi"},
		libraries: []string{"libefml.so"},
	},
	// Sources: docs/userguide/biren-device of github.com/Project-HAMi/website, and reports
	// of containers that lacked libbesu.so.1 because only the nodes were given.
	gpu.Biren: {
		cards:  []cardNode{{pattern: "/dev/biren/card_%d", by: byMinor}},
		shared: []string{"/dev/biren-m"},
		mounts: []string{"/usr/local/birensupa/driver", "/usr/bin/brsmi", "/opt/birentech/bin"},
	},
	gpu.Virtual: {},
}
