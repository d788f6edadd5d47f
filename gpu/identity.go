package gpu

import (
	"cmp"
	"slices"
	"strings"
)

// sameNow reports whether a and b, from one round, are the same device. Nothing
// that both name may differ; uuid or bus id must agree, or, where they cannot
// be compared, the index. (One bus id may carry two devices: the chips of a card.)
func (d Device) sameNow(o Device) bool {
	if differ(d.Index, o.Index) {
		return false
	}
	return d.sameCard(o)
}

// sameCard is sameNow for devices of different rounds, between which indices
// shift: the index counts only where nothing better can be compared.
func (d Device) sameCard(o Device) bool {
	byUUID, byBus := d.UUID != "" && o.UUID != "", d.BusID != "" && o.BusID != ""
	switch {
	case conflict(d.UUID, o.UUID), conflict(d.BusID, o.BusID),
		differ(d.Card, o.Card) && !byUUID && !byBus, differ(d.Chip, o.Chip):
		return false
	case byUUID, byBus:
		return true
	}
	return d.Index != nil && equal(d.Index, o.Index)
}

// sameUnit is sameNow for devices that two outputs may number differently: both
// uuid and bus id agree, or the card and the chip.
func (d Device) sameUnit(o Device) bool {
	if conflict(d.UUID, o.UUID) || conflict(d.BusID, o.BusID) || differ(d.Card, o.Card) || differ(d.Chip, o.Chip) {
		return false
	}
	named := d.UUID != "" && o.UUID != "" && d.BusID != "" && o.BusID != ""
	return named || d.onCard(o) && d.Chip != nil && o.Chip != nil
}

// onCard reports whether both name the card they are on, and it is the same.
func (d Device) onCard(o Device) bool { return d.Card != nil && equal(d.Card, o.Card) }

// fill takes over from o what d does not say.
func (d *Device) fill(o Device) {
	d.Index, d.UUID = first(d.Index, o.Index), cmp.Or(d.UUID, o.UUID)
	d.Model, d.BusID = wholeName(d.Model, o.Model), cmp.Or(d.BusID, o.BusID)
	d.NUMANode, d.MemoryTotal = first(d.NUMANode, o.NUMANode), first(d.MemoryTotal, o.MemoryTotal)
	d.DriverVersion = cmp.Or(d.DriverVersion, o.DriverVersion)
	d.FirmwareVersion = cmp.Or(d.FirmwareVersion, o.FirmwareVersion)
	d.Serial, d.MIGMode = cmp.Or(d.Serial, o.Serial), cmp.Or(d.MIGMode, o.MIGMode)
	if d.Instances == nil {
		d.Instances = o.Instances
	}
	d.Card, d.Chip, d.Minor = first(d.Card, o.Card), first(d.Chip, o.Chip), first(d.Minor, o.Minor)
}

// wholeName returns the first name, unless a narrow column cut it ("NVIDIA
// A100-SXM...") and the second is the whole one.
func wholeName(a, b string) string {
	if cut, ok := strings.CutSuffix(a, "..."); ok && strings.HasPrefix(b, cut) {
		return b
	}
	return cmp.Or(a, b)
}

// of reports whether s is a row of d: by uuid where both have one, else by index.
func (s Stats) of(d Device) bool {
	if s.UUID != "" && d.UUID != "" {
		return s.UUID == d.UUID && !differ(s.Index, d.Index)
	}
	return s.Index != nil && equal(s.Index, d.Index)
}

// of reports whether c is of d.
func (c Capability) of(d Device) bool { return c.Index != nil && equal(c.Index, d.Index) }

func (s *Stats) fill(o Stats) {
	s.Temperature, s.Utilization = first(s.Temperature, o.Temperature), first(s.Utilization, o.Utilization)
	s.MemoryUsed, s.MemoryTotal = first(s.MemoryUsed, o.MemoryUsed), first(s.MemoryTotal, o.MemoryTotal)
	s.Power, s.PowerLimit = first(s.Power, o.Power), first(s.PowerLimit, o.PowerLimit)
	s.Health, s.HealthMessage = cmp.Or(s.Health, o.Health), cmp.Or(s.HealthMessage, o.HealthMessage)
}

// of reports whether f blames d: what both name must agree, and something must.
func (f Failure) of(d Device) bool {
	if differ(f.Index, d.Index) || conflict(f.UUID, d.UUID) || conflict(f.BusID, d.BusID) {
		return false
	}
	return f.UUID != "" && d.UUID != "" || f.BusID != "" && d.BusID != "" || f.Index != nil && d.Index != nil
}

// first returns the first pointer that is set.
func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// equal reports whether both are nil or both hold the same value.
func equal[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// conflict reports whether both are given and are not the same.
func conflict(a, b string) bool { return a != "" && b != "" && a != b }

// differ reports whether both are set and hold different values.
func differ[T comparable](a, b *T) bool { return a != nil && b != nil && *a != *b }

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
