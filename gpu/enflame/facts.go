package enflame

// What a container needs to use a card, for the CDI generator. Paths are the
// host's; what is not there is left out. Sources: Enflame's gcushare
// (github.com/EnflameTechnology/gcushare, config/topscloud.json: tool, library,
// nodes) and vllm-gcu's installation document, which gives a container all of /dev.

// CardNode is the device node of a card. Below the card's PCI address, one of
// CardNodesDirs holds a directory gcuN with its number (the second one is that of
// another maker's build). Where neither is there the number is the index: so do programs
// that hand cards to containers by efml's index (OpenI's KrakenPlug).
const CardNode = "/dev/gcu%d"

// CardNodesDirs take the PCI address.
var CardNodesDirs = []string{"/sys/bus/pci/devices/%s/enflame", "/sys/bus/pci/devices/%s/zixiao"}

// SharedNodes are needed beside any card.
var SharedNodes = []string{"/dev/gcuctl"}

// Mounts are mounted read-only at the same path, and Libraries where the linker of the
// host finds them. The others (TopsRider) are the image's own.
var (
	Mounts    = []string{"/usr/bin/efsmi"}
	Libraries = []string{"libefml.so"}
)

// VisibleEnv is what Enflame's own container toolkit reads: indices or "all". The
// frameworks read ProcessEnv, which counts from 0 inside the container.
const (
	VisibleEnv = "ENFLAME_VISIBLE_DEVICES"
	ProcessEnv = "TOPS_VISIBLE_DEVICES"
)

// OfficialCDIKind is not taken by any known generator; it is the name that the
// vendor's device plugin gives the resource.
const OfficialCDIKind = "enflame.com/gcu"
