package gpu

import "cmp"

// Combine joins what several commands of one vendor said in one round. The same
// device in two parts becomes one: by uuid or bus id where both give it, else by
// index. Of two values of one field the earlier part's stands. The first
// collector error stands.
func Combine(v Vendor, parts ...Parsed) Report {
	r := Report{Vendor: v}
	for _, p := range parts {
		for _, d := range p.GPUs {
			r.addDevice(d)
		}
	}
	for _, p := range parts {
		for _, s := range p.Stats {
			r.addStats(s)
		}
		for _, f := range p.Failures {
			r.addFailure(f)
		}
		for _, c := range p.Capabilities {
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

func (r *Report) addDevice(d Device) {
	d.Vendor, d.Type = r.Vendor, r.Vendor
	r.DriverVersion = cmp.Or(r.DriverVersion, d.DriverVersion)
	for i := range r.Devices {
		if r.Devices[i].sameNow(d) {
			r.Devices[i].fill(d)
			return
		}
	}
	r.Devices = append(r.Devices, d)
}

// addStats adds a row to the device it belongs to, by uuid or index.
func (r *Report) addStats(s Stats) {
	for _, d := range r.Devices {
		if s.of(d) {
			s.Index, s.UUID = d.Index, d.UUID
			break
		}
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
func (r *Report) addFailure(f Failure) {
	for _, d := range r.Devices {
		if f.of(d) {
			f.Index, f.UUID, f.BusID = first(f.Index, d.Index), cmp.Or(f.UUID, d.UUID), cmp.Or(f.BusID, d.BusID)
			break
		}
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
