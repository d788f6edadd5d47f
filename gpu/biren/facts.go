package biren

// What a container needs to use a card, for the CDI generator. Paths are the
// host's; what is not there is left out. Sources: Biren's device plugin
// (github.com/BirenTechnology/k8s-device-plugin), HAMi's documents on Biren
// (github.com/Project-HAMi/website, enable-biren-sharing.md) and public reports. None of
// it was tried on a card.

// CardNode is a device node: of a card, or of an instance where the card is split
// (SVI). CardDevice leads from it to the PCI device that it belongs to. Where that or the
// card's bus id is not known the number is the index, as in the scripts of those who give
// containers whole cards.
const (
	CardNode   = "/dev/biren/card_%d"
	CardsDir   = "/sys/class/biren"
	CardDevice = CardsDir + "/card_%d/device"
)

// SharedNodes are needed beside any card where they exist: since driver 1.12.
var SharedNodes = []string{"/dev/biren-m"}

// Mounts are mounted read-only at the same path. Without the driver's directory
// programs miss libbesu.so.1; the vendor's own runtime gives nodes only.
var Mounts = []string{"/usr/local/birensupa/driver", "/usr/bin/brsmi", "/opt/birentech/bin"}

// VisibleEnv is what Biren's own container runtime reads, as indices. CardsEnv
// is set by its device plugin: names of nodes, "card_0".
const (
	VisibleEnv = "BIREN_VISIBLE_DEVICES"
	CardsEnv   = "BR_PHY_CARDS"
)

// OfficialCDIKind is the name that the vendor's device plugin gives the resource;
// that of the specs which it writes below /etc/cdi is not public.
const OfficialCDIKind = "birentech.com/gpu"
