package gpu

import (
	"fmt"
	"slices"
)

// Vendor is one of the eleven accelerator types of the protocol. A Device
// carries it twice, as "vendor" (whose card and tool it is) and as "type".
type Vendor string

// The eleven types.
const (
	MUSA      Vendor = "musa"
	Hygon     Vendor = "hygon"
	Cambricon Vendor = "cambricon"
	Biren     Vendor = "biren"
	Ascend    Vendor = "ascend"
	Kunlun    Vendor = "kunlun"
	Iluvatar  Vendor = "iluvatar"
	NVIDIA    Vendor = "nvidia"
	MetaX     Vendor = "metax"
	Enflame   Vendor = "enflame"
	Virtual   Vendor = "virtual"
)

// Vendors returns the eleven types in the order of the priority chain. Makers
// whose tools imitate nvidia-smi stand before NVIDIA; Virtual is last because
// it applies only when all others found nothing.
func Vendors() []Vendor {
	return []Vendor{
		MUSA, Hygon, Cambricon, Biren, Ascend, Kunlun, Iluvatar, NVIDIA, MetaX, Enflame, Virtual,
	}
}

// ParseVendor returns the vendor named s, or an error that lists the names.
func ParseVendor(s string) (Vendor, error) {
	if v := Vendor(s); slices.Contains(Vendors(), v) {
		return v, nil
	}
	return "", fmt.Errorf("unknown vendor %q: want one of %v", s, Vendors())
}
