package cdi

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/spec"
	"github.com/heteroflow/node-agent/gpu/cdi/specfile"
)

// Selection is a device that a container can be given.
type Selection struct {
	Name     string     // the qualified CDI name
	Device   gpu.Device // the card, or the one whose instance it is
	Instance string     // the instance's uuid; empty: the whole card
	Vendor   gpu.Vendor
}

// UnavailableError says why a device cannot be given to a container.
type UnavailableError struct {
	Vendor gpu.Vendor
	Index  *int   // as asked for
	UUID   string // as asked for
	File   string // of the spec in which it should be
	Reason string
}

// Error names the device and the spec file.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("%s device %s: %s (CDI spec %s)", e.Vendor, wanted(e.Index, e.UUID), e.Reason, e.File)
}

func wanted(index *int, uuid string) string {
	var words []string
	if index != nil {
		words = append(words, fmt.Sprint(*index))
	}
	if uuid != "" {
		words = append(words, uuid)
	}
	return strings.Join(words, " ")
}

// Select finds a whole card by its index, its uuid or both, of which at least one must be
// given. Where both are, both must be the card's: the control plane's view of the node may
// be older than a card that vanished and shifted the indices of those behind it. The error
// is an *UnavailableError.
func (c *Catalog) Select(vendor gpu.Vendor, index *int, uuid string) (Selection, error) {
	refuse := func(format string, args ...any) (Selection, error) {
		return Selection{}, &UnavailableError{Vendor: vendor, Index: index, UUID: uuid, File: specfile.Path(c.dir, vendor), Reason: fmt.Sprintf(format, args...)}
	}
	card, found := c.card(vendor, index, uuid)
	switch {
	case !found && c.collectorError(vendor) != nil:
		return refuse("not in the inventory; the vendor's tool fails: %v", c.collectorError(vendor))
	case !found:
		return refuse("not in the inventory")
	case index != nil && (card.Index == nil || *card.Index != *index):
		return refuse("the card with this uuid has index %s", wanted(card.Index, ""))
	case uuid != "" && card.UUID != uuid:
		return refuse("the card with this index has uuid %q", card.UUID)
	}
	if reason := c.failureOf(card); reason != "" {
		return refuse("the card has failed: %s", reason)
	}
	e := c.vendors[vendor]
	name := spec.NameOf(e.Spec, card)
	if name == "" {
		return refuse("%s", e.absenceOf(card))
	}
	return Selection{Name: spec.QualifiedName(vendor, name), Device: card, Vendor: vendor}, nil
}

// SelectInstance finds a MIG instance by its uuid. The error is an *UnavailableError.
func (c *Catalog) SelectInstance(uuid string) (Selection, error) {
	refuse := func(format string, args ...any) (Selection, error) {
		return Selection{}, &UnavailableError{Vendor: gpu.NVIDIA, UUID: uuid, File: specfile.Path(c.dir, gpu.NVIDIA), Reason: fmt.Sprintf(format, args...)}
	}
	for _, d := range c.snapshot.Devices {
		for _, i := range d.Instances {
			if d.Vendor != gpu.NVIDIA || uuid == "" || i.UUID != uuid {
				continue
			}
			if reason := c.failureOf(d); reason != "" {
				return refuse("card %s has failed: %s", wanted(d.Index, d.UUID), reason)
			}
			if spec.Device(c.vendors[gpu.NVIDIA].Spec, uuid) == nil {
				return refuse("%s", c.vendors[gpu.NVIDIA].omissionOf("MIG instance "+uuid))
			}
			return Selection{Name: spec.QualifiedName(gpu.NVIDIA, uuid), Device: d, Instance: uuid, Vendor: gpu.NVIDIA}, nil
		}
	}
	return refuse("no card has this MIG instance")
}

// card finds the card that fits best what is said of it; a uuid says more than an index.
func (c *Catalog) card(vendor gpu.Vendor, index *int, uuid string) (best gpu.Device, found bool) {
	most := 0
	for _, d := range c.snapshot.Devices {
		if d.Vendor != vendor {
			continue
		}
		fits := 0
		if uuid != "" && d.UUID == uuid {
			fits += 2
		}
		if index != nil && d.Index != nil && *d.Index == *index {
			fits++
		}
		if fits > most {
			best, most = d, fits
		}
	}
	return best, most > 0
}

// failureOf is what the last round says against a card; "": nothing.
func (c *Catalog) failureOf(d gpu.Device) string {
	for _, f := range c.snapshot.Failures {
		if about(d, f.Vendor, f.Index, f.UUID, f.BusID) {
			return strings.TrimSuffix(f.Code+": "+f.Message, ": ")
		}
	}
	for _, s := range c.snapshot.Stats {
		if s.Health == gpu.HealthFailed && about(d, s.Vendor, s.Index, s.UUID, "") {
			return cmp.Or(s.HealthMessage, "it reports so itself")
		}
	}
	return ""
}

// about tells whether a row of a snapshot is about a card. It names the vendor only on a
// node with cards of several.
func about(d gpu.Device, vendor gpu.Vendor, index *int, uuid, bus string) bool {
	if vendor != "" && vendor != d.Vendor {
		return false
	}
	otherIndex := index != nil && d.Index != nil && *index != *d.Index
	switch {
	case otherIndex:
		return false
	case uuid != "" && d.UUID != "":
		return uuid == d.UUID
	case bus != "" && d.BusID != "":
		return bus == d.BusID
	default:
		return index != nil && d.Index != nil
	}
}

func (e *entry) absenceOf(d gpu.Device) string {
	for _, a := range e.Absent {
		if d.Index != nil && a.Device.Index != nil && *a.Device.Index == *d.Index {
			return a.Reason
		}
	}
	if d.MIGMode == gpu.MIGEnabled {
		return "it is in MIG mode: only its instances can be given"
	}
	return "not in the spec"
}

func (e *entry) omissionOf(what string) string {
	for _, o := range e.Omitted {
		if o.Path == what {
			return o.Reason
		}
	}
	return "not in the spec"
}
