package spec

import (
	"testing"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/ascend"
	"github.com/heteroflow/node-agent/gpu/biren"
	"github.com/heteroflow/node-agent/gpu/cambricon"
	"github.com/heteroflow/node-agent/gpu/enflame"
	"github.com/heteroflow/node-agent/gpu/hygon"
	"github.com/heteroflow/node-agent/gpu/iluvatar"
	"github.com/heteroflow/node-agent/gpu/metax"
	"github.com/heteroflow/node-agent/gpu/musa"
	"github.com/heteroflow/node-agent/gpu/nvidia"
)

// The vendors' own generators, and gpustack's, have these kinds.
func TestOurKindsAreNobodyElses(t *testing.T) {
	for vendor, theirs := range map[gpu.Vendor]string{
		gpu.Ascend: ascend.OfficialCDIKind, gpu.Biren: biren.OfficialCDIKind, gpu.Cambricon: cambricon.OfficialCDIKind,
		gpu.Enflame: enflame.OfficialCDIKind, gpu.Hygon: hygon.OfficialCDIKind, gpu.Iluvatar: iluvatar.OfficialCDIKind,
		gpu.MetaX: metax.OfficialCDIKind, gpu.MUSA: musa.OfficialCDIKind, gpu.NVIDIA: nvidia.OfficialCDIKind,
	} {
		if err := validateKind(theirs); err != nil || Kind(vendor) == theirs {
			t.Errorf("%s: %s, %v", vendor, theirs, err)
		}
	}
}
