package hygon

// What a container needs to use a card, for the CDI generator. Paths are the
// host's; what is not there is left out. Source: Hygon's hcu-container-toolkit
// (github.com/HYGON-AI/hcu-container-toolkit).

// SharedNodes are needed beside any card.
var SharedNodes = []string{"/dev/kfd", "/dev/mkfd"}

// CardNodesDir holds, below a card's PCI address, the names of its nodes in
// /dev/dri: cardX and renderDY. They must be looked up there; the index says
// nothing, because the management VGA is often card0 (gpustack issue 5337).
const CardNodesDir = "/sys/bus/pci/devices/%s/drm"

// Mounts are mounted read-only at the same path. The toolkit (DTK) is the
// image's own.
var Mounts = []string{"/opt/hyhal"}

// VisibleEnv is what Hygon's own container runtime reads: indices, "all", "none"
// or "void". The frameworks read HIP_VISIBLE_DEVICES, which counts from 0 inside
// the container.
const VisibleEnv = "HCU_VISIBLE_DEVICES"

// OfficialCDIKind is taken by Hygon's own generator.
const OfficialCDIKind = "hygon.com/hcu"
