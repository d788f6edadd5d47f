package musa

// What a container needs to use a card, for the CDI generator. Paths are the
// host's; what is not there is left out. There is no control node. Sources: the
// manual of github.com/MooreThreads/mthreads-ml-py (node names, groups), FlagOS's
// installation documents (nodes and tool), docs of github.com/containers/ramalama
// (the runtime and its variable).

// CardNode is the device node of a card, by its index. Nothing public says what
// its number is where mthreads-gmi skips indices.
const CardNode = "/dev/mtgpu.%d"

// CardNodesDir holds, below a card's PCI address, the names of its nodes in
// /dev/dri: cardX and renderDY.
const CardNodesDir = "/sys/bus/pci/devices/%s/drm"

// Mounts are mounted read-only at the same path. The SDK (MUSA) is the image's
// own; the driver's libraries are the host's.
var Mounts = []string{
	"/usr/bin/mthreads-gmi",
	"/usr/lib/x86_64-linux-gnu/musa",
	"/usr/lib/aarch64-linux-gnu/musa",
}

// Libraries are of the driver, too: they are looked up in the linker's cache.
var Libraries = []string{"libmtml.so.2", "libmtml.so"}

// VisibleEnv is what the vendor's runtime (mthreads) reads: indices or "all". The
// frameworks read MUSA_VISIBLE_DEVICES, which counts from 0 inside the container.
const VisibleEnv = "MTHREADS_VISIBLE_DEVICES"

// OfficialCDIKind is the name that schedulers use; the vendor has no generator
// of its own.
const OfficialCDIKind = "mthreads.com/gpu"
