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

// LibraryDirs are where CoreX lies; of the versioned ones the highest counts.
var LibraryDirs = []string{"/usr/local/corex/lib64", "/usr/local/corex/lib", "/usr/local/corex-*/lib64"}

// Libraries are the driver's part of CoreX. The rest is the image's own; these
// are mounted only for an image that has none, because its versions must match.
var Libraries = []string{"libixml.so", "libcuda.so.1", "libixthunk.so"}

// VisibleEnv is what Iluvatar's own container runtime reads: indices, uuids or
// "all". The frameworks read CUDA_VISIBLE_DEVICES, which counts from 0 inside
// the container.
const VisibleEnv = "IX_VISIBLE_DEVICES"

// OfficialCDIKind is taken by Iluvatar's own generator (ix-ctk).
const OfficialCDIKind = "iluvatar.com/gpu"
