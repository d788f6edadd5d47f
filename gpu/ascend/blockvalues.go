package ascend

import (
	"cmp"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// fill completes d by what the block says and returns the measurements and what
// is wrong.
func (b block) fill(d *gpu.Device) (gpu.Stats, []gpu.Failure) {
	v := func(key string) string { return text.String(b.values[key]) }
	d.Card, d.Chip = b.card, b.chip
	d.Model = cmp.Or(v("chip name"), v("npu name"))
	d.Serial, d.BusID = v("serial number"), text.BusID(v("pcie bus info"))
	d.DriverVersion, d.FirmwareVersion = v("software version"), v("firmware version")
	// The die's id is the only one that is a chip's for life.
	d.UUID = strings.Join(strings.Fields(cmp.Or(v("vdie id"), v("ddie id"))), "-")
	d.MemoryTotal = b.memory()
	s := gpu.Stats{
		Index: d.Index, UUID: d.UUID, MemoryTotal: d.MemoryTotal,
		Temperature: text.Celsius(cmp.Or(v("temperature(c)"), v("npu temperature(c)"))),
		Utilization: text.Percent(cmp.Or(v("npu utilization(%)"), v("aicore usage rate(%)"))),
		Power:       text.Watts(cmp.Or(v("npu real-time power(w)"), v("power dissipation(w)"))),
	}
	word := cmp.Or(v("health status"), v("health"))
	s.Health, s.HealthMessage = healthOf(word)
	why := strings.TrimSpace(v("error information"))
	if codes := v("error code"); codes != "" {
		why = strings.TrimSpace(why + " (error code " + codes + ")")
	}
	var failures []gpu.Failure
	if f, sick := sickness(*d, word, why); sick {
		failures = append(failures, f)
	}
	if len(b.faults) > 0 {
		failures = append(failures, failure(*d, CodeFaultEvent, strings.Join(b.faults, "; ")))
	}
	return s, failures
}

// memory returns the capacity of the HBM, or of the DDR where there is none; 0
// is printed for what a card has not.
func (b block) memory() *int64 {
	capacity, ok := b.values["hbm capacity(mb)"]
	if !ok {
		capacity = b.values["ddr capacity(mb)"]
	}
	if m := text.MiB(capacity); m != nil && *m > 0 {
		return m
	}
	return nil
}
