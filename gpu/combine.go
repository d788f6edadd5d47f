package gpu

import (
	"cmp"
	"slices"
)

// Combine joins what several commands of one vendor said in one round. The same
// device in two parts becomes one: by uuid, bus id, or card and chip where both
// give them, else by index. Of two values of one field the earlier part's stands,
// of the numbers, too: some commands count only what they list, so a part's rows
// go to the device that the part itself numbers so. The first collector error
// stands.
func Combine(v Vendor, parts ...Parsed) Report {
	r := Report{Vendor: v}
	places := make([][]int, len(parts)) // of a part's devices in r.Devices
	for i, p := range parts {
		for _, d := range p.GPUs {
			places[i] = append(places[i], r.addDevice(d, places[i]))
		}
	}
	for i, p := range parts {
		for _, s := range p.Stats {
			r.addStats(s, r.device(p, places[i], s.of))
		}
		for _, f := range p.Failures {
			r.addFailure(f, r.device(p, places[i], f.of))
		}
		for _, c := range p.Capabilities {
			if d := r.device(p, places[i], c.of); d != nil {
				c.Index = d.Index
			}
			r.addCapability(c)
		}
		if r.Topology == nil {
			r.Topology = p.Topology
		}
		if r.CollectorError == nil {
			r.CollectorError = p.CollectorError
		}
	}
	return r
}

// addDevice adds a device of a part, whose devices before it are at own, and
// returns where it is. One under a number that another device has gets the next.
func (r *Report) addDevice(d Device, own []int) int {
	d.Vendor, d.Type = r.Vendor, r.Vendor
	r.DriverVersion = cmp.Or(r.DriverVersion, d.DriverVersion)
	at := slices.IndexFunc(r.Devices, d.sameNow)
	if at < 0 {
		at = r.renumbered(d, own)
	}
	if at >= 0 {
		r.Devices[at].fill(d)
		return at
	}
	if d.Index != nil && slices.ContainsFunc(r.Devices, func(o Device) bool { return equal(o.Index, d.Index) }) {
		d.Index = new(r.free())
	}
	r.Devices = append(r.Devices, d)
	return len(r.Devices) - 1
}

// renumbered finds a device that another part numbers otherwise. A card that is
// named without a chip is the device of that card where it has but one.
func (r *Report) renumbered(d Device, own []int) int {
	var ofCard []int
	for i, have := range r.Devices {
		switch {
		case slices.Contains(own, i):
		case have.sameUnit(d):
			return i
		case d.Chip == nil && have.onCard(d):
			ofCard = append(ofCard, i)
		}
	}
	if len(ofCard) == 1 {
		return ofCard[0]
	}
	return -1
}

// free returns the number after the highest.
func (r *Report) free() int {
	n := 0
	for _, d := range r.Devices {
		if d.Index != nil {
			n = max(n, *d.Index+1)
		}
	}
	return n
}

// device finds the device of a part's row, or else of any part.
func (r *Report) device(p Parsed, places []int, of func(Device) bool) *Device {
	if i := slices.IndexFunc(p.GPUs, of); i >= 0 {
		return &r.Devices[places[i]]
	}
	if i := slices.IndexFunc(r.Devices, of); i >= 0 {
		return &r.Devices[i]
	}
	return nil
}

// addStats adds a row to those of its device, which is nil when nobody lists it.
func (r *Report) addStats(s Stats, d *Device) {
	if d != nil {
		s.Index, s.UUID = d.Index, d.UUID
	}
	for i := range r.Stats {
		have := &r.Stats[i]
		if s.UUID == have.UUID && equal(s.Index, have.Index) {
			have.fill(s)
			return
		}
	}
	r.Stats = append(r.Stats, s)
}

// addFailure completes a failure with what is known of its card, and drops a
// second row that says the same.
func (r *Report) addFailure(f Failure, d *Device) {
	if d != nil {
		f.Index, f.UUID, f.BusID = first(d.Index, f.Index), cmp.Or(f.UUID, d.UUID), cmp.Or(f.BusID, d.BusID)
	}
	if r.hasFailure(f) {
		return
	}
	r.Failures = append(r.Failures, f)
}

func (r *Report) addCapability(c Capability) {
	for i := range r.Capabilities {
		have := &r.Capabilities[i]
		if equal(have.Index, c.Index) {
			have.MIGCapable = have.MIGCapable || c.MIGCapable
			have.MPSCapable = have.MPSCapable || c.MPSCapable
			for _, kind := range c.SliceKinds {
				have.SliceKinds = appendNew(have.SliceKinds, kind)
			}
			return
		}
	}
	r.Capabilities = append(r.Capabilities, c)
}
