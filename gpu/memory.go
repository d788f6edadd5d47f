package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// ForgetAfter is how long a missing card is reported before it is forgotten,
// provided that the PCI bus does not show it either. A day leaves room for a
// repair and a reboot: a card that does not come back from one is the very
// thing to report.
const ForgetAfter = 24 * time.Hour

// Known is a remembered card.
type Known struct {
	Vendor       Vendor    `json:"vendor"`
	UUID         string    `json:"uuid,omitempty"`
	BusID        string    `json:"bus_id,omitempty"`
	Chip         *int      `json:"chip,omitempty"`
	Index        *int      `json:"index,omitempty"` // when it was last listed
	Model        string    `json:"model,omitempty"`
	MissingSince time.Time `json:"missing_since,omitzero"` // zero: it was there in the last round
}

// Store keeps the remembered cards across restarts. Save is called when
// something changed, not in every round, and never concurrently.
type Store interface {
	Load() ([]Known, error)
	Save([]Known) error
}

// memory remembers which cards there were. A card is identified by uuid and bus
// id; one that has neither cannot be missed by name, and is not remembered.
//
// A card is forgotten when another card sits in its slot, when it turns up in
// another slot, or after ForgetAfter as described there.
type memory struct {
	mu    sync.Mutex
	cards []Known
	store Store
}

// check compares a round's devices with the remembered ones. It completes the
// failures that blame a remembered card, adds one for each card that is missing
// without a word, and reports what the store said if it had to be written.
func (m *memory) check(r *Report, onBus func(busID string) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := slices.Clone(m.cards)
	listed := m.recognise(r)
	m.cards = slices.DeleteFunc(m.cards, func(k Known) bool {
		return k.Vendor == r.Vendor && !k.MissingSince.IsZero() && (superseded(k, r.Devices) ||
			r.At.Sub(k.MissingSince) >= ForgetAfter && (k.BusID == "" || !onBus(k.BusID)))
	})
	for _, k := range m.cards {
		if k.Vendor == r.Vendor && !k.MissingSince.IsZero() {
			r.miss(k)
		}
	}
	for i, d := range r.Devices {
		if !listed[i] && (d.UUID != "" || d.BusID != "") {
			m.cards = append(m.cards, Known{
				Vendor: r.Vendor, UUID: d.UUID, BusID: d.BusID, Chip: d.Chip, Index: d.Index, Model: d.Model,
			})
		}
	}
	if m.store == nil || slices.EqualFunc(before, m.cards, Known.equal) {
		return nil
	}
	return m.store.Save(slices.Clone(m.cards))
}

// recognise matches remembered cards with the round's devices one to one, those
// that kept their index first, and notes since when a card is missing. It
// returns which devices were recognised.
func (m *memory) recognise(r *Report) map[int]bool {
	found, listed := map[int]bool{}, map[int]bool{}
	for _, sameIndex := range []bool{true, false} {
		for i := range m.cards {
			k := &m.cards[i]
			if found[i] || k.Vendor != r.Vendor {
				continue
			}
			for at, d := range r.Devices {
				if listed[at] || !k.is(d) || sameIndex && !equal(k.Index, d.Index) {
					continue
				}
				found[i], listed[at] = true, true
				k.seen(d)
				break
			}
		}
	}
	for i := range m.cards {
		if k := &m.cards[i]; k.Vendor == r.Vendor && !found[i] && k.MissingSince.IsZero() {
			k.MissingSince = r.At
		}
	}
	return listed
}

// seen takes over what a listed device says, and keeps what it does not say.
func (k *Known) seen(d Device) {
	k.UUID, k.BusID = cmp.Or(d.UUID, k.UUID), cmp.Or(d.BusID, k.BusID)
	k.Chip, k.Index = first(d.Chip, k.Chip), first(d.Index, k.Index)
	k.Model, k.MissingSince = cmp.Or(d.Model, k.Model), time.Time{}
}

// is reports whether d is the remembered card.
func (k Known) is(d Device) bool {
	return Device{UUID: k.UUID, BusID: k.BusID, Chip: k.Chip}.sameCard(d)
}

func (k Known) equal(o Known) bool {
	return k.Vendor == o.Vendor && k.UUID == o.UUID && k.BusID == o.BusID && equal(k.Chip, o.Chip) &&
		equal(k.Index, o.Index) && k.Model == o.Model && k.MissingSince.Equal(o.MissingSince)
}

// superseded reports whether a missing card's slot holds another card now, or
// the card sits in another slot.
func superseded(k Known, devices []Device) bool {
	return slices.ContainsFunc(devices, func(d Device) bool {
		if differ(k.Chip, d.Chip) || k.UUID == "" || k.BusID == "" {
			return false
		}
		return d.BusID == k.BusID && d.UUID != "" || d.UUID == k.UUID && d.BusID != ""
	})
}

// miss reports a missing card, unless a failure blames it already, which then
// learns its uuid. The index it had is given only when no other card has it now.
func (r *Report) miss(k Known) {
	card := Device{UUID: k.UUID, BusID: k.BusID}
	for i := range r.Failures {
		f := &r.Failures[i]
		byIndex := f.UUID == "" && f.BusID == "" && f.Index != nil && equal(f.Index, k.Index)
		if byIndex || (Failure{UUID: f.UUID, BusID: f.BusID}).of(card) {
			f.UUID, f.BusID = cmp.Or(f.UUID, k.UUID), cmp.Or(f.BusID, k.BusID)
			return
		}
	}
	f := Failure{UUID: k.UUID, BusID: k.BusID, Index: k.Index, Code: CodeMissing, Message: fmt.Sprintf(
		"%s is not listed since %s; the tool gives no reason: see the kernel log",
		cmp.Or(k.Model, "the card"), k.MissingSince.UTC().Format(time.RFC3339))}
	if slices.ContainsFunc(r.Devices, func(d Device) bool { return equal(d.Index, k.Index) }) {
		f.Index = nil
	}
	r.Failures = append(r.Failures, f)
}
