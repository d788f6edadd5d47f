package pci

import "slices"

// PCI base class and subclass of what computes. Bridges and NVSwitches (06xx),
// a card's own audio (0403) and USB (0c03) functions, NICs and storage have others.
const (
	classVGA         = 0x0300
	class3D          = 0x0302
	classDisplay     = 0x0380
	classCoProcessor = 0x0b40
	classAccelerator = 0x1200
)

// rule says how a vendor's accelerators look on the bus.
type rule struct {
	vendor    string
	vendorIDs []uint16
	classes   []uint32
	// devices, when not nil, are the only device ids meant: the vendor also
	// makes other things of these classes, or the id is not its own.
	devices []uint16
}

// rules are data: sources in docs/gpu-support.md. Biren is not among them: its
// vendor id is not in pci.ids and nothing public confirms one.
var rules = []rule{
	{"musa", []uint16{0x1ed5}, []uint32{classVGA, class3D, classAccelerator}, nil},
	// 0x1d94 is also Hygon's CPUs and chipsets, of other classes.
	{"hygon", []uint16{0x1d94}, []uint32{classDisplay, classCoProcessor}, nil},
	{"cambricon", []uint16{0xcabc}, []uint32{classAccelerator}, nil},
	// 0x19e5 is also Huawei's management VGA and NICs; boards of other makers
	// carry the same chips under ids of their own (the driver's match table).
	{
		"ascend",
		[]uint16{0x19e5, 0x20c6, 0x203f, 0x20e9, 0x2092},
		[]uint32{classAccelerator},
		[]uint16{0xd100, 0xd105, 0xd500, 0xd501, 0xd801, 0xd802, 0xd803, 0xd804, 0xd805, 0xd806, 0xd807, 0xd808},
	},
	// The P800 has vendor id 0x2057; 0x1d22:1380 is a storage device.
	{
		"kunlun",
		[]uint16{0x1d22, 0x2057},
		[]uint32{class3D, classAccelerator, 0x0780},
		[]uint16{0x3684, 0x3685, 0x3686, 0x3688},
	},
	{"iluvatar", []uint16{0x1e3e}, []uint32{class3D, classAccelerator}, nil},
	{"nvidia", []uint16{0x10de}, []uint32{classVGA, class3D}, nil},
	{"metax", []uint16{0x9999}, []uint32{classVGA, class3D, classDisplay, classAccelerator}, nil},
	{"enflame", []uint16{0x1e36}, []uint32{class3D, classAccelerator}, nil},
}

// identify returns the vendor's word, or "".
func identify(c Card) string {
	for _, r := range rules {
		if slices.Contains(r.vendorIDs, c.VendorID) && slices.Contains(r.classes, c.Class>>8) &&
			(r.devices == nil || slices.Contains(r.devices, c.DeviceID)) {
			return r.vendor
		}
	}
	return ""
}
