// Package cards counts a node's cards over its heartbeats: which are lost,
// which may be given to tasks, and what each is worth when it is shared.
//
// It is pure: it owns no state, does no I/O and runs no goroutine.
package cards

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

// Confirm is how many heartbeats running it takes to believe that a card is
// lost, and how many to believe that it is back.
const Confirm = 3

// State is what is known of a node's cards, by card. The zero value is a node
// that never told.
type State struct {
	BootID string                   `json:"boot_id,omitempty"`
	Cards  map[string]operator.Card `json:"cards,omitempty"`
}

// Next returns the state after a heartbeat. inventory is the heartbeat's own
// or, where it left it out, the last one.
//
// A card is bad in a heartbeat that reports a failure of it, or that reports
// measurements without it, or whose inventory no longer has it. It is good in
// one that has measurements of it and no failure. A heartbeat that measured
// nothing says nothing of any card. A reboot starts from the new inventory. A
// failure that only warns (see weights) is told, and counts as none.
func Next(before State, beat protocol.Heartbeat, inventory []protocol.Device) State {
	after := State{BootID: beat.BootID, Cards: map[string]operator.Card{}}
	present := map[string]bool{}
	for _, d := range inventory {
		key := keyOf(d)
		card := before.Cards[key]
		card.Device, card.Tier = d, tier(beat, d, card.Tier)
		after.Cards[key] = card
		present[key] = true
	}
	if before.BootID == beat.BootID {
		for key, card := range before.Cards {
			if !present[key] {
				after.Cards[key] = card
			}
		}
	}
	for key, card := range after.Cards {
		after.Cards[key] = count(card, beat, present[key])
	}
	return after
}

// keyOf names a card over heartbeats: by its identifier, or by its place
// where the vendor's tool gives none.
func keyOf(d protocol.Device) string {
	return cmp.Or(d.UUID, d.BusID, fmt.Sprintf("%s#%d", d.Type, d.Index))
}

func count(card operator.Card, beat protocol.Heartbeat, present bool) operator.Card {
	failure, failed := failureOf(card.Device, beat)
	problem := cmp.Or(failure.Message, failure.Code)
	stats, measured := statsOf(card.Device, beat)
	switch {
	case failed && weightOf(failure.Code) == unusable:
		card = bad(card, problem)
	case !present:
		card = bad(card, "no longer in the inventory")
	case measured:
		card = good(card)
	case beat.GPUStats != nil:
		card = bad(card, "missing from the measurements")
	}
	if card.BadBeats == 0 && !card.Lost {
		card.Problem = cmp.Or(problem, card.Problem)
	}
	if measured {
		card.Failed = stats.Health == protocol.DeviceFailed
	}
	if measured && card.Failed {
		card.Problem = cmp.Or(stats.HealthMessage, "the card reports that it has failed")
	}
	card.Allocatable = !card.Lost && !card.Failed
	return card
}

func bad(card operator.Card, problem string) operator.Card {
	card.Problem, card.GoodBeats = problem, 0
	card.BadBeats = min(card.BadBeats+1, Confirm)
	card.Lost = card.Lost || card.BadBeats >= Confirm
	return card
}

func good(card operator.Card) operator.Card {
	card.BadBeats = 0
	if card.Lost {
		card.GoodBeats++
		card.Lost = card.GoodBeats < Confirm
	}
	if !card.Lost {
		card.GoodBeats, card.Problem = 0, ""
	}
	return card
}

// otherVendor tells whether a row is certainly not about the card: on a node with cards of
// two vendors each counts from 0, and every row names its vendor.
func otherVendor(named protocol.DeviceType, d protocol.Device) bool {
	return named != "" && named != d.Vendor
}

func statsOf(d protocol.Device, beat protocol.Heartbeat) (protocol.DeviceStats, bool) {
	i := slices.IndexFunc(beat.GPUStats, func(s protocol.DeviceStats) bool {
		switch {
		case otherVendor(s.Vendor, d):
			return false
		case s.UUID != "" && d.UUID != "":
			return s.UUID == d.UUID
		default:
			return s.Index == d.Index
		}
	})
	if i < 0 {
		return protocol.DeviceStats{}, false
	}
	return beat.GPUStats[i], true
}

// tier is what the confirmed capabilities are worth. A heartbeat that leaves
// the capabilities out changes nothing.
func tier(beat protocol.Heartbeat, d protocol.Device, before operator.Tier) operator.Tier {
	if beat.GPUCapabilities == nil && before != "" {
		return before
	}
	for _, c := range beat.GPUCapabilities {
		switch {
		case c.Index != d.Index, otherVendor(c.Vendor, d):
		case c.MIGCapable:
			return operator.TierGold
		case c.MPSCapable:
			return operator.TierSilver
		}
	}
	return operator.TierBronze
}

// List returns the cards in the order of their index.
func (s State) List() []operator.Card {
	list := make([]operator.Card, 0, len(s.Cards))
	for _, card := range s.Cards {
		list = append(list, card)
	}
	slices.SortFunc(list, func(a, b operator.Card) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(keyOf(a.Device), keyOf(b.Device)))
	})
	return list
}
