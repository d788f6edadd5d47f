package metax

// What a container needs to use a card, for the CDI generator. Paths are the
// host's; what is not there is left out. Sources: ms-swift's document on MetaX
// (github.com/modelscope/ms-swift, Metax-support.md), FlagPerf's base/configs,
// gpustack's runtime (github.com/gpustack/runtime, deployer/cdi/metax.py).

// SharedNodes are needed beside any card; only the first exists everywhere.
var SharedNodes = []string{"/dev/mxcd", "/dev/mxnd", "/dev/mxgd"}

// CardNodesDir holds, below a card's PCI address, the names of its nodes in
// /dev/dri: cardX and renderDY.
const CardNodesDir = "/sys/bus/pci/devices/%s/drm"

// Mounts are mounted read-only at the same path. The libraries (MACA) are the
// image's own, and no runtime of the vendor's is needed.
var Mounts = []string{"/opt/mxdriver"}

// VisibleEnv names what the frameworks read: indices inside the container.
// CUDA_VISIBLE_DEVICES is read, too; it is the process's own here, so it must
// never be set to "void", as can be done for NVIDIA's runtime.
const VisibleEnv = "MACA_VISIBLE_DEVICES"

// OfficialCDIKind is taken by gpustack's generator.
const OfficialCDIKind = "metax-tech.com/gpu"
