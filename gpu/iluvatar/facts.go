package iluvatar

// What a container needs to use a card, for the CDI generator. Paths are the
// host's; what is not there is left out. Sources: Iluvatar's device plugin and
// container toolkit (github.com/Deep-Spark/ix-device-plugin,
// github.com/Deep-Spark/ix-container-toolkit).

// CardNode is the device node of a card, by Device.Minor, which is not its index.
const CardNode = "/dev/iluvatar%d"

// SharedNodes are needed beside any card where they exist: only drivers of 4.4.0
// and newer have it, and not all of those need it.
var SharedNodes = []string{"/dev/itrctl"}

// No library is mounted: an image for these cards has CoreX, and with it libcuda.so.1
// and libixml.so, whose versions must match the rest of it.

// VisibleEnv is what Iluvatar's own container runtime reads: indices, uuids or
// "all". The frameworks read CUDA_VISIBLE_DEVICES, which counts from 0 inside
// the container.
const VisibleEnv = "IX_VISIBLE_DEVICES"

// OfficialCDIKind is taken by Iluvatar's own generator (ix-ctk).
const OfficialCDIKind = "iluvatar.com/gpu"
