package nvidia

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/nvidia/xid"
	"github.com/heteroflow/node-agent/gpu/tool"
)

func TestAnXidTakesACardUntilThereIsEvidenceThatItIsBack(t *testing.T) {
	card := gpu.Device{Index: new(4), UUID: uuid0, BusID: "0000:21:00.0"}
	there := gpu.Report{
		Devices: []gpu.Device{card},
		Stats:   []gpu.Stats{{Index: card.Index, UUID: card.UUID, Health: gpu.HealthOK}},
	}
	event := func(kind string, code int) []gpu.KernelEvent {
		e := gpu.KernelEvent{Kind: kind, BusIDs: []string{card.BusID}, Message: "NVRM: words"}
		if code > 0 {
			e.Code = &code
		}
		return []gpu.KernelEvent{e}
	}
	well := []string{card.UUID}
	for _, c := range []struct {
		name   string
		rounds []Reading
		want   []string // code of the failure, or health, after each round
	}{
		{
			"a program's fault leaves the card alone",
			[]Reading{{Report: there, Events: event(xid.KindXID, 31)}, {Report: there, Events: event(xid.KindXID, 94)}},
			[]string{"ok", "ok"},
		},
		{
			"an error that only asks to look further is a warning of its round",
			[]Reading{{Report: there, Events: event(xid.KindXID, 48)}, {Report: there}},
			[]string{"warning", "ok"},
		},
		{
			"a reset is over when the driver says so, later than the event",
			[]Reading{
				{Report: there, Events: event(xid.KindXID, 95), NoAction: well},
				{Report: there},
				{Report: there, NoAction: well},
			},
			[]string{"xid_95", "xid_95", "ok"},
		},
		{
			"a card off the bus is back when it answers",
			[]Reading{
				{Report: gpu.Report{}, Events: event(xid.KindXID, 79)},
				{Report: gpu.Report{}},
				{Report: there},
			},
			[]string{"xid_79", "xid_79", "ok"},
		},
		{
			"falling off without an Xid counts the same",
			[]Reading{{Report: there, Events: event(xid.KindOff, 0)}, {Report: there}},
			[]string{xid.KindOff, "ok"},
		},
		{
			"a row that has a failure is no answer",
			[]Reading{
				{Report: there, Events: event(xid.KindXID, 79)},
				{Report: gpu.Report{
					Devices: there.Devices, Stats: there.Stats,
					Failures: []gpu.Failure{{Index: card.Index, Code: "telemetry_error", Message: "ERR!"}},
				}},
				{Report: there},
			},
			[]string{"xid_79", "telemetry_error", "ok"},
		},
		{
			"one that only warns is an answer",
			[]Reading{
				{Report: gpu.Report{}, Events: event(xid.KindXID, 79)},
				{Report: gpu.Report{
					Devices: there.Devices, Stats: there.Stats,
					Failures: []gpu.Failure{{Index: card.Index, Code: "inforom_corrupted", Message: "WARNING"}},
				}},
				{Report: there},
			},
			[]string{"xid_79", "inforom_corrupted", "ok"},
		},
		{
			"the same error again is one failure",
			[]Reading{{Report: there, Events: slices.Concat(event(xid.KindXID, 119), event(xid.KindXID, 119))}},
			[]string{"xid_119"},
		},
		{
			"an error of the fabric is no card's",
			[]Reading{{Report: there, Events: event(xid.KindSXID, 20034)}},
			[]string{"ok"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := &fake{}
			d := New(tool.NewReplay(), source)
			for i, reading := range c.rounds {
				reading.Stats = slices.Clone(reading.Stats)
				reading.Failures = slices.Clone(reading.Failures)
				source.reading = reading
				rep, err := d.Collect(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got := ""
				switch {
				case len(rep.Failures) > 0:
					got = rep.Failures[0].Code
				case len(rep.Stats) > 0:
					got = rep.Stats[0].Health
				}
				if got != c.want[i] {
					t.Errorf("round %d: %q, want %q (%+v)", i, got, c.want[i], rep.Failures)
				}
			}
		})
	}
}

func TestAFailureByXidNamesItsCardAndItsHealth(t *testing.T) {
	source := &fake{reading: Reading{
		Report: gpu.Report{
			Devices: []gpu.Device{{Index: new(2), UUID: uuid0, BusID: "0000:21:00.0"}, {Index: new(3), UUID: uuid1, BusID: "0000:22:00.0"}},
			Stats:   []gpu.Stats{{Index: new(2), UUID: uuid0, Health: gpu.HealthOK}, {Index: new(3), UUID: uuid1, Health: gpu.HealthOK}},
		},
		Events: []gpu.KernelEvent{{Kind: xid.KindXID, Code: new(64), BusIDs: []string{"0000:22:00.0"}}},
	}}
	rep, err := New(tool.NewReplay(), source).Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []gpu.Failure{{
		Index: new(3), UUID: uuid1, BusID: "0000:22:00.0", Code: "xid_64", Message: "Xid 64: row remapping failure",
	}}
	if diff := cmp.Diff(want, rep.Failures); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if rep.Stats[0].Health != gpu.HealthOK || rep.Stats[1].Health != gpu.HealthFailed {
		t.Errorf("health: %+v", rep.Stats)
	}
}
