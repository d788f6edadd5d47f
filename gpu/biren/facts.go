package biren

// What a container needs to use a card, for the CDI generator. Paths are the
// host's; what is not there is left out. Sources: HAMi's documents on Biren
// (github.com/Project-HAMi/website, enable-biren-sharing.md) and public reports of
// its device plugin. None of it was tried on a card.

// CardNode is a device node: of a card, or of an instance where the card is split
// (SVI). Its number is not the index: the file CardSlotFile below it says which
// card it belongs to.
const (
	CardNode     = "/dev/biren/card_%d"
	CardSlotFile = "/sys/class/biren/card_%d/device/physical_id"
)

// SharedNodes are needed beside any card where they exist: since driver 1.12.
var SharedNodes = []string{"/dev/biren-m"}

// Mounts are mounted read-only at the same path. Without the driver's directory
// programs miss libbesu.so.1; the vendor's own runtime gives nodes only.
var Mounts = []string{"/usr/local/birensupa/driver", "/usr/bin/brsmi", "/opt/birentech"}

// VisibleEnv is what Biren's own container runtime reads, as indices. CardsEnv
// is set by its device plugin: names of nodes, "card_0".
const (
	VisibleEnv = "BIREN_VISIBLE_DEVICES"
	CardsEnv   = "BR_PHY_CARDS"
)

// OfficialCDIKind is the name that the vendor's device plugin gives the resource;
// that of the specs which it writes below /etc/cdi is not public.
const OfficialCDIKind = "birentech.com/gpu"
