package gpu

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Snapshot is what the node knows of its accelerators now. Its JSON is the part
// of the heartbeat that it fills.
type Snapshot struct {
	// Type is the node's: the first vendor of the chain that has a card, or else
	// the first that has signs of one.
	Type           Vendor         `json:"-"`
	Devices        []Device       `json:"gpus"`
	Stats          []Stats        `json:"gpu_stats"`
	Failures       []Failure      `json:"gpu_collect_failures"`
	CollectorError string         `json:"gpu_collector_error,omitempty"`
	Topology       *Topology      `json:"gpu_topology,omitempty"` // of Type; indices of two vendors would collide
	Capabilities   []Capability   `json:"gpu_capabilities"`
	Vendors        []VendorStatus `json:"-"` // of those that are here or show signs of it
}

// VendorStatus is one vendor's part, for the status command and the log.
type VendorStatus struct {
	Vendor        Vendor
	Installed     bool // its tool is there
	Cards         int
	DriverVersion string
	Age           time.Duration // of the values that are reported
	Error         *CollectorError
}

// MarshalJSON prints lists as [] rather than null, as Parsed does.
func (s Snapshot) MarshalJSON() ([]byte, error) {
	type plain Snapshot
	q := plain(s)
	q.Devices, q.Stats = orEmpty(q.Devices), orEmpty(q.Stats)
	q.Failures, q.Capabilities = orEmpty(q.Failures), orEmpty(q.Capabilities)
	return json.Marshal(q)
}

// signs reports whether anything speaks for a card of this vendor.
func (r Report) signs() bool {
	return len(r.Devices) > 0 || len(r.Failures) > 0 || r.CollectorError != nil || r.Topology != nil
}

// merge joins the reports of all vendors, which are in the order of the chain.
func (r *Registry) merge(reports []Report) Snapshot {
	var s Snapshot
	shown := slices.DeleteFunc(slices.Clone(reports), func(r Report) bool { return r.Vendor == Virtual || !r.signs() })
	if len(shown) == 0 {
		shown = slices.DeleteFunc(slices.Clone(reports), func(r Report) bool { return r.Vendor != Virtual })
	}
	s.Type = nodeType(shown)
	mixed := len(shown) > 1
	var errs []string
	for _, rep := range shown {
		s.add(rep, mixed)
		if e := rep.CollectorError; e != nil {
			errs = append(errs, string(rep.Vendor)+": "+e.Error())
		}
		s.Vendors = append(s.Vendors, VendorStatus{
			Vendor: rep.Vendor, Installed: !rep.Absent, Cards: len(rep.Devices),
			DriverVersion: rep.DriverVersion, Age: time.Since(rep.At), Error: rep.CollectorError,
		})
	}
	s.CollectorError = strings.Join(errs, "; ")
	return s
}

func nodeType(reports []Report) Vendor {
	for _, r := range reports {
		if len(r.Devices) > 0 {
			return r.Vendor
		}
	}
	if len(reports) > 0 {
		return reports[0].Vendor
	}
	return ""
}

// add appends one vendor's rows, marked with the vendor on a mixed node.
func (s *Snapshot) add(r Report, mixed bool) {
	var mark Vendor
	if mixed {
		mark = r.Vendor
	}
	s.Devices = append(s.Devices, r.Devices...)
	for _, row := range r.Stats {
		row.Vendor = mark
		s.Stats = append(s.Stats, row)
	}
	for _, row := range r.Failures {
		row.Vendor = mark
		s.Failures = append(s.Failures, row)
	}
	for _, row := range r.Capabilities {
		row.Vendor = mark
		s.Capabilities = append(s.Capabilities, row)
	}
	if r.Vendor == s.Type {
		s.Topology = r.Topology
	}
}
