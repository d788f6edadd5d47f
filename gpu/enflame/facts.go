package enflame

// What a container needs to use a card, for the CDI generator. Paths are the
// host's; what is not there is left out. Sources: Enflame's gcushare
// (github.com/EnflameTechnology/gcushare, config/topscloud.json: tool, library,
// nodes) and vllm-gcu's installation document, which gives a container all of /dev.

// CardNode is the device node of a card. Its number must be looked up: below a
// card's PCI address, one of CardNodesDirs holds a directory gcuN (the second one
// is that of another maker's build). That the index is the number is not known.
const CardNode = "/dev/gcu%d"

// CardNodesDirs take the PCI address.
var CardNodesDirs = []string{"/sys/bus/pci/devices/%s/enflame", "/sys/bus/pci/devices/%s/zixiao"}

// SharedNodes are needed beside any card.
var SharedNodes = []string{"/dev/gcuctl"}

// Mounts are mounted read-only at the same path. The libraries (TopsRider) are
// the image's own.
var Mounts = []string{"/usr/bin/efsmi", "/usr/lib/libefml.so"}

// VisibleEnv is what Enflame's own container toolkit reads: indices or "all". The
// frameworks read TOPS_VISIBLE_DEVICES, which counts from 0 inside the container.
const VisibleEnv = "ENFLAME_VISIBLE_DEVICES"

// OfficialCDIKind is not taken by any known generator; it is the name that the
// vendor's device plugin gives the resource.
const OfficialCDIKind = "enflame.com/gcu"
