package biren

import (
	"fmt"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// table is a CSV while it is being read.
type table struct {
	columns []string
	unnamed string // the first row that no columns are known for
	parsed  gpu.Parsed
}

// complain keeps the first error.
func (t *table) complain(code, message string) {
	if t.parsed.CollectorError == nil {
		t.parsed.CollectorError = &gpu.CollectorError{Code: code, Message: message}
	}
}

func (t *table) empty() bool {
	return len(t.parsed.GPUs) == 0 && len(t.parsed.Failures) == 0 && t.parsed.CollectorError == nil
}

// row takes in one card. A row must begin as asked: with the card's number where
// that is the first column. Without a number there is no telling whose it is.
func (t *table) row(values []string, line string) {
	at := slices.Index(t.columns, "index")
	if at < 0 {
		if numberOnly.MatchString(values[0]) && len(values) > 1 {
			t.unnamed = line
		}
		return
	}
	if at >= len(values) || !numberOnly.MatchString(values[at]) {
		return
	}
	index := text.Int(values[at])
	if index == nil || t.has(*index) {
		return
	}
	if len(values) != len(t.columns) {
		t.parsed.Failures = append(t.parsed.Failures, gpu.Failure{
			Index: index, Code: CodeUnparsedRow,
			Message: fmt.Sprintf("%d values for %d columns: %s", len(values), len(t.columns), line),
		})
		return
	}
	d := gpu.Device{Index: index, Vendor: gpu.Biren, Type: gpu.Biren}
	var s gpu.Stats
	for i, name := range t.columns {
		name = strings.TrimSpace(name)
		identify(&d, name, values[i])
		measure(&s, name, values[i])
	}
	t.parsed.GPUs = append(t.parsed.GPUs, d)
	if s != (gpu.Stats{}) || d.MemoryTotal != nil {
		s.Index, s.UUID, s.MemoryTotal = d.Index, d.UUID, d.MemoryTotal
		t.parsed.Stats = append(t.parsed.Stats, s)
	}
}

func (t *table) has(index int) bool {
	return slices.ContainsFunc(t.parsed.GPUs, func(d gpu.Device) bool { return *d.Index == index }) ||
		slices.ContainsFunc(t.parsed.Failures, func(f gpu.Failure) bool { return *f.Index == index })
}

// The most that one card can have. What is over it is in another unit than the
// one that is taken for granted.
const (
	mostMemory = 1 << 40 // bytes
	mostWatts  = 2000
)

// memory returns the bytes of a number of MiB, or nil.
func memory(value string) *int64 {
	if n := text.MiB(value); n != nil && *n <= mostMemory {
		return n
	}
	return nil
}

// identify takes in what a card is. memory.free is not added up to a total with
// what is used: whether the two leave something out is not known.
func identify(d *gpu.Device, name, value string) {
	switch name {
	case "name":
		d.Model = text.String(value)
	case "uuid":
		d.UUID = text.String(value)
	case "serial":
		d.Serial = text.String(value)
	case "pci.bus_id":
		d.BusID = text.BusID(value)
	case "driver_version":
		d.DriverVersion = text.String(value)
	case "memory.total":
		if n := memory(value); n != nil && *n > 0 {
			d.MemoryTotal = n
		}
	}
}

// measure takes in what changes. With "nounits" a value is a bare number.
func measure(s *gpu.Stats, name, value string) {
	switch name {
	case "memory.used":
		s.MemoryUsed = memory(value)
	case "utilization.gpu":
		if v := text.Percent(value); v != nil && *v >= 0 && *v <= 100 {
			s.Utilization = v
		}
	case "temperature.gpu":
		s.Temperature = text.Celsius(value)
	case "power.draw":
		if v := text.Watts(value); v != nil && *v <= mostWatts {
			s.Power = v
		}
	}
}
