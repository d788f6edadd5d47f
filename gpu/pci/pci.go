// Package pci says which accelerators are on the PCI bus, whatever their tools
// say. It only reads sysfs, below a root that tests and captures replace. It
// starts no goroutine.
package pci

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// DefaultSysfs is where sysfs is mounted.
const DefaultSysfs = "/sys"

// Card is an accelerator on the bus.
type Card struct {
	Vendor   string // a word of gpu.Vendors
	BusID    string // 0000:c1:00.0
	VendorID uint16
	DeviceID uint16
	Class    uint32 // 24 bits: base class, subclass, interface
	Driver   string // bound kernel driver; "" when none is
	NUMANode *int   // nil when the kernel does not know
	Virtual  bool   // an SR-IOV virtual function
}

// PassedThrough reports whether the card is given to a virtual machine: it is
// not this system's, and no driver of the vendor will answer for it.
func (c Card) PassedThrough() bool {
	return c.Driver == "vfio-pci" || c.Driver == "pci-stub" || c.Driver == "xen-pciback"
}

const devicesDir = "bus/pci/devices"

// maxDevices bounds what is read of a capture made by a stranger; the largest
// real machines have some thousand functions.
const maxDevices = 1 << 16

// Scan returns the accelerators below a sysfs root, in the order of bus ids. A
// machine without PCI has none. A device that vanishes while it is read is
// left out.
func Scan(sysfs string) ([]Card, error) {
	root, err := os.OpenRoot(sysfs)
	if err != nil {
		return nil, fmt.Errorf("open sysfs: %w", err)
	}
	defer root.Close() //nolint:errcheck // only read from
	dir, err := fs.ReadDir(root.FS(), devicesDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list PCI devices: %w", err)
	}
	var cards []Card
	for _, entry := range dir[:min(len(dir), maxDevices)] {
		if c, ok := read(root, entry.Name()); ok {
			cards = append(cards, c)
		}
	}
	slices.SortFunc(cards, func(a, b Card) int { return strings.Compare(a.BusID, b.BusID) })
	return cards, nil
}

// read reads one function; ok is false when it is no accelerator of ours.
func read(root *os.Root, name string) (c Card, ok bool) {
	dir := path.Join(devicesDir, name)
	vendor, ok1 := hex[uint16](root, path.Join(dir, "vendor"))
	device, ok2 := hex[uint16](root, path.Join(dir, "device"))
	class, ok3 := hex[uint32](root, path.Join(dir, "class"))
	if !ok1 || !ok2 || !ok3 {
		return Card{}, false
	}
	c = Card{BusID: strings.ToLower(name), VendorID: vendor, DeviceID: device, Class: class & 0xffffff}
	if c.Vendor = identify(c); c.Vendor == "" {
		return Card{}, false
	}
	if n, err := strconv.Atoi(line(root, path.Join(dir, "numa_node"))); err == nil && n >= 0 {
		c.NUMANode = &n
	}
	c.Driver = driver(root, dir)
	_, err := root.Lstat(path.Join(dir, "physfn"))
	c.Virtual = err == nil
	return c, true
}

// driver returns the name of the bound driver: the target of a link in sysfs,
// the content of a file in a capture.
func driver(root *os.Root, dir string) string {
	name := path.Join(dir, "driver")
	if target, err := root.Readlink(name); err == nil {
		return path.Base(target)
	}
	return line(root, name)
}

// hex reads an attribute like "0x10de"; ok is false when it is no number that fits.
func hex[T uint16 | uint32](root *os.Root, name string) (n T, ok bool) {
	v, err := strconv.ParseUint(strings.TrimPrefix(line(root, name), "0x"), 16, 32)
	n = T(v)
	return n, err == nil && uint64(n) == v
}

// line reads a one-line attribute; "" when it cannot be read.
func line(root *os.Root, name string) string {
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<16 {
		return ""
	}
	raw, err := root.ReadFile(name)
	if err != nil {
		return ""
	}
	s, _, _ := strings.Cut(string(raw), "\n")
	return strings.TrimSpace(s)
}
