package iluvatar

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var (
	column    = text.Lazy(`^([a-z_]+(?:\.[a-z_]+)*)(?:\s*\[(\S+)\])?$`) // "memory.total [MiB]"
	modelName = text.Lazy(`^Iluvatar\s|^(?:BI|MR)-V\d`)
	fieldName = text.Lazy(`^(?:index|name|uuid|gpu_uuid|(?:memory|utilization|temperature|power|gpu|pci)\.[a-z_.]+)$`)
)

// parseCSV reads "--query-gpu=… --format=csv". Without a header ("noheader") the
// arguments name the columns, and a row must hold more than any words for a name to
// be one: it could be an error.
func parseCSV(in input) (gpu.Parsed, bool) {
	var columns []string
	headed := false
	if slices.ContainsFunc(in.args, func(a string) bool { return strings.Contains(a, "noheader") }) {
		columns = asked(in.args)
	}
	var cards []*card
	for _, line := range in.lines {
		values := strings.Split(line, ",")
		if head := header(values); head != nil {
			columns, headed = head, true
			continue
		}
		if len(columns) == 0 || len(values) != len(columns) {
			continue
		}
		c := &card{}
		for i, name := range columns {
			c.field(name, strings.TrimSpace(values[i]))
		}
		if slices.Contains(columns, "index") && c.device.Index == nil {
			continue
		}
		if headed || c.identified() {
			cards = append(cards, c)
		}
	}
	return result(cards), headed || len(cards) > 0
}

func (c *card) identified() bool {
	return modelName.MatchString(c.device.Model) || c.device.Index != nil || c.device.BusID != "" || strings.HasPrefix(c.device.UUID, "GPU-") ||
		c.device.MemoryTotal != nil || c.stats != (gpu.Stats{})
}

// asked returns the fields of --query-gpu=.
func asked(args []string) []string {
	for i, a := range args {
		list, ok := strings.CutPrefix(a, "--query-gpu=")
		if a == "--query-gpu" && i+1 < len(args) {
			list, ok = args[i+1], true
		}
		if ok {
			return strings.Split(list, ",")
		}
	}
	return nil
}

// header returns the names of the columns without their units, or nil when the
// line is no header.
func header(values []string) []string {
	names := make([]string, 0, len(values))
	for _, v := range values {
		m := column.FindStringSubmatch(strings.TrimSpace(v))
		if m == nil {
			return nil
		}
		names = append(names, m[1])
	}
	if !slices.ContainsFunc(names, fieldName.MatchString) {
		return nil
	}
	return names
}

// field takes in one value; with "nounits" it is a bare number, in the unit that
// the field always has.
func (c *card) field(name, value string) {
	switch strings.TrimSpace(name) {
	case "index":
		c.device.Index = text.Natural(value)
	case "name", "gpu_name":
		c.device.Model = text.String(value)
	case "uuid", "gpu_uuid":
		c.device.UUID = text.String(value)
	case "serial", "gpu_serial":
		c.device.Serial = text.String(value)
	case "pci.bus_id", "gpu_bus_id":
		c.device.BusID = text.BusID(value)
	case "driver_version":
		c.device.DriverVersion = text.String(value)
	case "memory.total":
		c.device.MemoryTotal = text.Positive(text.MiB(value))
	case "memory.used":
		c.stats.MemoryUsed = text.MiB(value)
	case "utilization.gpu":
		c.stats.Utilization = text.Share(value)
	case "temperature.gpu":
		c.stats.Temperature = text.Celsius(value)
	case "power.draw", "gpu.power.draw":
		c.stats.Power = text.Watts(value)
	case "power.limit", "gpu.power.limit", "gpu.current.power.limit", "current.power.limit":
		c.stats.PowerLimit = text.Positive(text.Watts(value))
	}
}
