package nvidia

import (
	"fmt"
	"slices"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/nvidia/smi"
	"github.com/heteroflow/node-agent/gpu/nvidia/xid"
)

// faults are the Xids that took a card and have not been answered by evidence
// that it is back. A driver before 535 does not say whether a reset is needed;
// there such a fault lasts as long as the process. After a restart of the agent
// the card's own state speaks again.
type faults struct {
	open []fault
}

type fault struct {
	bus   string
	code  string // of the failure
	words string
	class xid.Class
}

// apply gives back the cards that have recovered, notes the new events, and says
// which cards are still taken. An event and its evidence are never of one
// reading: which of both came first is not known there.
func (f *faults) apply(r *Reading) {
	f.open = slices.DeleteFunc(f.open, func(open fault) bool { return recovered(open, *r) })
	for _, e := range r.Events {
		f.note(r, e)
	}
	for _, open := range f.open {
		failure := gpu.Failure{BusID: open.bus, Code: open.code, Message: open.words}
		for i, d := range r.Devices {
			if d.BusID == open.bus {
				failure.Index, failure.UUID = d.Index, d.UUID
				mark(&r.Report, i, gpu.HealthFailed, open.words)
			}
		}
		r.Failures = append(r.Failures, failure)
	}
}

// note files one event under each card that it blames.
func (f *faults) note(r *Reading, e gpu.KernelEvent) {
	open := fault{code: e.Kind, class: xid.Reboot, words: e.Message}
	switch {
	case e.Kind == xid.KindXID && e.Code != nil:
		open.class = xid.ClassOf(*e.Code)
		open.code = fmt.Sprintf("xid_%d", *e.Code)
		if open.words == "" {
			open.words = fmt.Sprintf("Xid %d: %s", *e.Code, xid.Name(*e.Code))
		}
	case e.Kind != xid.KindOff:
		return // the fabric's, no card's
	}
	for _, open.bus = range e.BusIDs {
		switch {
		case open.class == xid.Check:
			for i, d := range r.Devices {
				if d.BusID == open.bus {
					mark(&r.Report, i, gpu.HealthWarning, open.words)
				}
			}
		case open.class.Takes() && !slices.ContainsFunc(f.open, func(have fault) bool {
			return have.bus == open.bus && have.code == open.code
		}):
			f.open = append(f.open, open)
		}
	}
}

// recovered reports whether this reading holds the evidence that a fault is over.
func recovered(f fault, r Reading) bool {
	for _, d := range r.Devices {
		if d.BusID != f.bus || failed(d, r.Failures) {
			continue
		}
		switch f.class.Recovery() {
		case xid.Acquitted:
			return slices.Contains(r.NoAction, d.UUID)
		case xid.Answers:
			return true
		case xid.None:
		}
	}
	return false
}

// mark sets the health of the i-th device, unless it is as bad already.
func mark(r *gpu.Report, i int, health, message string) {
	for j := range r.Stats {
		s := &r.Stats[j]
		if s.UUID != r.Devices[i].UUID || s.Index == nil || r.Devices[i].Index == nil || *s.Index != *r.Devices[i].Index {
			continue
		}
		if s.Health != gpu.HealthFailed && s.Health != health {
			s.Health, s.HealthMessage = health, message
		}
	}
}

// failed reports whether a failure takes the card: one with a corrupted infoROM works.
func failed(d gpu.Device, failures []gpu.Failure) bool {
	return slices.ContainsFunc(failures, func(f gpu.Failure) bool {
		return f.Code != smi.CodeInfoROM && blames(f, d)
	})
}

// blames reports whether a failure names the card: by uuid or bus id where both
// have one, else by index.
func blames(f gpu.Failure, d gpu.Device) bool {
	switch {
	case f.UUID != "" && d.UUID != "":
		return f.UUID == d.UUID
	case f.BusID != "" && d.BusID != "":
		return f.BusID == d.BusID
	}
	return f.Index != nil && d.Index != nil && *f.Index == *d.Index
}
