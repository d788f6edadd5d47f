package cards

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
)

var inventory = []protocol.Device{
	{Index: 0, UUID: "GPU-0", BusID: "0000:01:00.0", Type: protocol.DeviceNVIDIA},
	{Index: 1, UUID: "GPU-1", BusID: "0000:02:00.0", Type: protocol.DeviceNVIDIA},
}

func beat(change ...func(*protocol.Heartbeat)) protocol.Heartbeat {
	b := protocol.Heartbeat{BootID: "boot"}
	b.GPUStats = []protocol.DeviceStats{{Index: 0, UUID: "GPU-0"}, {Index: 1, UUID: "GPU-1"}}
	for _, c := range change {
		c(&b)
	}
	return b
}

func failing(f protocol.CollectFailure) func(*protocol.Heartbeat) {
	return func(b *protocol.Heartbeat) { b.GPUCollectFailures = append(b.GPUCollectFailures, f) }
}

func missing(b *protocol.Heartbeat)    { b.GPUStats = b.GPUStats[:1] }
func unmeasured(b *protocol.Heartbeat) { b.GPUStats = nil }

func TestACardIsLostAfterThreeBadHeartbeatsRunning(t *testing.T) {
	type round struct {
		beat      protocol.Heartbeat
		inventory []protocol.Device
	}
	good := round{beat(), inventory}
	byUUID := round{beat(failing(protocol.CollectFailure{UUID: "GPU-1", Code: "gpu_lost"})), inventory}
	byBus := round{beat(failing(protocol.CollectFailure{BusID: "0000:02:00.0", Code: "gpu_lost"})), inventory}
	byIndex := round{beat(failing(protocol.CollectFailure{Index: new(1), Code: "gpu_lost"})), inventory}
	gap := round{beat(missing), inventory}
	silent := round{beat(unmeasured), inventory}
	gone := round{beat(missing), inventory[:1]}
	nobody := round{beat(failing(protocol.CollectFailure{Code: "gpu_lost"})), inventory}
	reboot := round{beat(func(b *protocol.Heartbeat) { b.BootID = "next"; missing(b) }), inventory[:1]}
	for name, c := range map[string]struct {
		rounds []round
		cards  int
		lost   bool
	}{
		"two bad ones are not enough":                     {[]round{good, byUUID, byUUID}, 2, false},
		"three failures by identifier":                    {[]round{good, byUUID, byUUID, byUUID}, 2, true},
		"three failures by address":                       {[]round{good, byBus, byBus, byBus}, 2, true},
		"three failures by index":                         {[]round{byIndex, byIndex, byIndex}, 2, true},
		"failures of a card that is not named":            {[]round{nobody, nobody, nobody}, 2, false},
		"three times missing from the measurements":       {[]round{good, gap, gap, gap}, 2, true},
		"three times out of the inventory":                {[]round{good, gone, gone, gone}, 2, true},
		"three kinds of bad":                              {[]round{good, byUUID, gap, gone}, 2, true},
		"a good one in between":                           {[]round{gap, gap, good, gap, gap}, 2, false},
		"heartbeats that measured nothing are no proof":   {[]round{good, silent, silent, silent, silent}, 2, false},
		"nor do they clear what was bad":                  {[]round{gap, gap, silent, gap}, 2, true},
		"two good ones do not bring it back":              {[]round{gap, gap, gap, good, good}, 2, true},
		"three do":                                        {[]round{gap, gap, gap, good, good, good}, 2, false},
		"a bad one among the good ones starts it anew":    {[]round{gap, gap, gap, good, good, gap, good, good}, 2, true},
		"what was measured of nothing does not count":     {[]round{gap, gap, gap, good, silent, good}, 2, true},
		"after a reboot without the card it is forgotten": {[]round{gap, gap, gap, reboot}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			for _, r := range c.rounds {
				s = Next(s, r.beat, r.inventory)
			}
			list := s.List()
			if len(list) != c.cards || list[0].Lost || !list[0].Allocatable {
				t.Fatalf("cards %+v", list)
			}
			last := list[len(list)-1]
			if last.Lost != c.lost || last.Allocatable == c.lost {
				t.Errorf("lost %t, allocatable %t, want lost %t: %+v", last.Lost, last.Allocatable, c.lost, last)
			}
			if c.lost && last.Problem == "" {
				t.Error("it is not said why")
			}
		})
	}
}

func TestACardThatReportsItselfFailedIsNotAllocatable(t *testing.T) {
	var s State
	failed := beat(func(b *protocol.Heartbeat) {
		b.GPUStats[1].Health, b.GPUStats[1].HealthMessage = protocol.DeviceFailed, "uncorrectable ECC"
	})
	for _, b := range []protocol.Heartbeat{failed, beat(unmeasured)} { // and stays so until measured again
		s = Next(s, b, inventory)
		if card := s.List()[1]; card.Allocatable || card.Lost || card.Problem != "uncorrectable ECC" {
			t.Errorf("got %+v", card)
		}
	}
	s = Next(s, beat(), inventory)
	if card := s.List()[1]; !card.Allocatable || card.Problem != "" {
		t.Errorf("got %+v", card)
	}
}

func TestTheTierComesFromConfirmedCapabilities(t *testing.T) {
	var s State
	for _, c := range []struct {
		name string
		caps []protocol.Capability
		want operator.Tier
	}{
		{"never told", nil, operator.TierBronze},
		{"MPS", []protocol.Capability{{Index: 1, MPSCapable: true}}, operator.TierSilver},
		{"left out", nil, operator.TierSilver},
		{"MIG before MPS", []protocol.Capability{{Index: 0}, {Index: 1, MIGCapable: true, MPSCapable: true}}, operator.TierGold},
		{"no longer confirmed", []protocol.Capability{}, operator.TierBronze},
	} {
		s = Next(s, beat(func(b *protocol.Heartbeat) { b.GPUCapabilities = c.caps }), inventory)
		if got := s.List()[1].Tier; got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		if got := s.List()[0].Tier; got != operator.TierBronze {
			t.Errorf("%s: the other card is %s", c.name, got)
		}
	}
}

func TestCardsWithoutIdentifiersAreToldApart(t *testing.T) {
	plain := []protocol.Device{{Index: 0, Type: protocol.DeviceEnflame}, {Index: 1, Type: protocol.DeviceEnflame}}
	var s State
	for range Confirm {
		b := protocol.Heartbeat{}
		b.GPUStats = []protocol.DeviceStats{{Index: 0}}
		s = Next(s, b, plain)
	}
	if list := s.List(); len(list) != 2 || list[0].Lost || !list[1].Lost {
		t.Errorf("got %+v", list)
	}
}

func TestCardsOfTwoVendorsWithOneIndexAreToldApart(t *testing.T) {
	mixed := []protocol.Device{
		{Index: 0, Vendor: protocol.DeviceMUSA, Type: protocol.DeviceMUSA},
		{Index: 0, Vendor: protocol.DeviceNVIDIA, Type: protocol.DeviceNVIDIA, UUID: "GPU-0"},
	}
	var s State
	for range Confirm {
		b := protocol.Heartbeat{}
		b.GPUStats = []protocol.DeviceStats{{Vendor: protocol.DeviceMUSA, Index: 0}, {Vendor: protocol.DeviceNVIDIA, Index: 0, UUID: "GPU-0"}}
		b.GPUCollectFailures = []protocol.CollectFailure{{Vendor: protocol.DeviceNVIDIA, Index: new(0), Code: "gpu_lost"}}
		b.GPUCapabilities = []protocol.Capability{{Vendor: protocol.DeviceNVIDIA, Index: 0, MIGCapable: true}}
		s = Next(s, b, mixed)
	}
	for _, c := range s.List() {
		nvidia := c.Vendor == protocol.DeviceNVIDIA
		if c.Lost != nvidia || (c.Tier == operator.TierGold) != nvidia {
			t.Errorf("%s: lost %v, tier %s", c.Vendor, c.Lost, c.Tier)
		}
	}
}

// Whatever a node sends: a card of the inventory is known, a lost one is never
// allocatable, and it takes three heartbeats to change one's mind.
func TestAnyHeartbeatsKeepTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s State
		bad := map[string]int{}
		for range rapid.IntRange(1, 20).Draw(t, "rounds") {
			b := beat(func(b *protocol.Heartbeat) {
				if rapid.Bool().Draw(t, "missing") {
					missing(b)
				}
				if rapid.Bool().Draw(t, "unmeasured") {
					unmeasured(b)
				}
				if rapid.Bool().Draw(t, "failing") {
					failing(protocol.CollectFailure{Index: new(1)})(b)
				}
			})
			before := s
			s = Next(s, b, inventory)
			for key, card := range s.Cards {
				isBad := len(b.GPUCollectFailures) > 0 && key == "GPU-1" || len(b.GPUStats) == 1 && key == "GPU-1"
				switch {
				case isBad:
					bad[key]++
				case b.GPUStats != nil:
					bad[key] = 0
				}
				if bad[key] >= Confirm && !card.Lost || card.Lost && card.Allocatable {
					t.Fatalf("%s after %d bad heartbeats: %+v", key, bad[key], card)
				}
				if card.Lost && !before.Cards[key].Lost && bad[key] < Confirm {
					t.Fatalf("%s lost after %d bad heartbeats", key, bad[key])
				}
			}
		}
	})
}
