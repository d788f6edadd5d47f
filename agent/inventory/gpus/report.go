package gpus

import (
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/protocol"
)

// Report says s in the words of the protocol. The lists are absent, and not
// empty, where nothing is known: a node whose only tool fails has not lost its
// cards, and one without measurements has not measured that every card is gone.
//
// Rows of a device without an index are left out: every detector numbers its
// cards, only a recording made by hand may not, and nobody could name such a
// card in a task.
func Report(s gpu.Snapshot) protocol.GPUReport {
	report := protocol.GPUReport{
		GPUCollectFailures: convert(s.Failures, failure),
		GPUCollectorError:  s.CollectorError,
		GPUTopology:        topology(s.Topology),
	}
	if len(s.Devices) > 0 || s.CollectorError == "" {
		report.GPUs, report.GPUCapabilities = convert(s.Devices, device), convert(s.Capabilities, capability)
	}
	if rows := convert(s.Stats, stats); len(rows) > 0 {
		report.GPUStats = rows
	}
	return report
}

// convert converts the rows that can be; the list it returns is not nil.
func convert[From, To any](rows []From, one func(From) (To, bool)) []To {
	list := make([]To, 0, len(rows))
	for _, row := range rows {
		if to, ok := one(row); ok {
			list = append(list, to)
		}
	}
	return list
}

func device(d gpu.Device) (protocol.Device, bool) {
	if d.Index == nil {
		return protocol.Device{}, false
	}
	to := protocol.Device{
		Index: *d.Index, UUID: d.UUID, Vendor: protocol.DeviceType(d.Vendor), Type: protocol.DeviceType(d.Type),
		Model: d.Model, BusID: d.BusID, NUMANode: d.NUMANode, MemoryTotalBytes: d.MemoryTotal,
		DriverVersion: d.DriverVersion, FirmwareVersion: d.FirmwareVersion, Serial: d.Serial,
		MIGMode: protocol.MIGMode(d.MIGMode),
	}
	for _, i := range d.Instances {
		to.Instances = append(to.Instances, protocol.SliceInstance{
			GIID: i.GI, CIID: i.CI, UUID: i.UUID, Profile: i.Profile,
		})
	}
	return to, true
}

func stats(s gpu.Stats) (protocol.DeviceStats, bool) {
	if s.Index == nil {
		return protocol.DeviceStats{}, false
	}
	return protocol.DeviceStats{
		Vendor: protocol.DeviceType(s.Vendor), Index: *s.Index, UUID: s.UUID,
		TemperatureCelsius: s.Temperature, UtilizationPercent: s.Utilization,
		MemoryUsedBytes: s.MemoryUsed, MemoryTotalBytes: s.MemoryTotal,
		PowerWatts: s.Power, PowerLimitWatts: s.PowerLimit,
		Health: protocol.DeviceHealth(s.Health), HealthMessage: s.HealthMessage,
	}, true
}

func failure(f gpu.Failure) (protocol.CollectFailure, bool) {
	return protocol.CollectFailure{
		Vendor: protocol.DeviceType(f.Vendor), Index: f.Index, UUID: f.UUID, BusID: f.BusID,
		Code: f.Code, Message: f.Message,
	}, true
}

func capability(c gpu.Capability) (protocol.Capability, bool) {
	if c.Index == nil {
		return protocol.Capability{}, false
	}
	to := protocol.Capability{
		Vendor: protocol.DeviceType(c.Vendor), Index: *c.Index, MIGCapable: c.MIGCapable, MPSCapable: c.MPSCapable,
	}
	for _, kind := range c.SliceKinds {
		to.SliceKinds = append(to.SliceKinds, protocol.SliceKind(kind))
	}
	return to, true
}

func topology(t *gpu.Topology) *protocol.Topology {
	if t == nil {
		return nil
	}
	to := &protocol.Topology{Kind: t.Kind}
	for _, l := range t.Links {
		to.Links = append(to.Links, protocol.TopologyLink(l))
	}
	for _, a := range t.NUMA {
		to.NUMA = append(to.NUMA, protocol.TopologyNUMA(a))
	}
	for _, n := range t.NICs {
		to.NICs = append(to.NICs, protocol.TopologyNIC(n))
	}
	return to
}
