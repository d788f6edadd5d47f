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
	d.Minor = id(v("chip phy-id"))
	// The die's id is the only one that is a chip's for life.
	d.UUID = cmp.Or(dieID(v("vdie id")), dieID(v("ddie id")), dieID(v("die id")))
	d.MemoryTotal = b.memory()
	s := gpu.Stats{
		Index: d.Index, UUID: d.UUID, MemoryTotal: d.MemoryTotal,
		Temperature: text.Celsius(cmp.Or(v("temperature(c)"), v("npu temperature(c)"))),
		Utilization: text.Percent(b.utilization()),
	}
	for _, key := range powerKeys {
		if s.Power == nil {
			s.Power = text.Watts(v(key))
		}
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

// utilization returns that of the chip, where there is a line for it, else that
// of its AI cores.
func (b block) utilization() string {
	if chip, ok := b.values["npu utilization(%)"]; ok {
		return chip
	}
	return b.values["aicore usage rate(%)"]
}

// powerKeys are the measured power; "Rated Power Dissipation" of a 310 is not.
var powerKeys = []string{"npu real-time power(w)", "power dissipation(w)"}

// dieWords are the parts of a die's id; that of a 310 follows its version.
var dieWords = text.Lazy(`\b[0-9A-Fa-f]{8}\b`)

// dieID returns a die's id with dashes; one of zeros stands for "unknown".
func dieID(value string) string {
	words := dieWords.FindAllString(value, -1)
	if strings.Trim(strings.Join(words, ""), "0") == "" {
		return ""
	}
	return strings.Join(words, "-")
}

// capacities are the keys of a chip's memory: HBM; where there is none, the DDR,
// which 310 and 310B call just memory or nothing.
var capacities = []string{"hbm capacity(mb)", "ddr capacity(mb)", "memory capacity(mb)", "capacity(mb)"}

// memory returns the first of the capacities; 0 is printed for what a card has
// not. A flash's capacity has the name of a 310's.
func (b block) memory() *int64 {
	if _, flash := b.values["flash count"]; flash {
		return nil
	}
	for _, key := range capacities {
		if capacity, ok := b.values[key]; ok {
			if m := text.MiB(capacity); m != nil && *m > 0 {
				return m
			}
			return nil
		}
	}
	return nil
}
