package metax

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu/text"
)

// set takes in one value of the log or of JSON, which share their keys; JSON
// writes them with underscores.
func (c *card) set(section, key, value string) {
	section, key = fold(section), fold(key)
	if strings.HasPrefix(key, "hotspot") { // "hotspot(sensor1)": the hottest one's name
		c.stats.Temperature = text.Celsius(c.measure(value))
		return
	}
	switch key {
	case "vram total":
		c.device.MemoryTotal = text.Positive(text.Bytes(c.measure(value), "KB"))
		return
	case "vram used":
		c.stats.MemoryUsed = text.Bytes(c.measure(value), "KB")
		return
	}
	switch section + "/" + key {
	case "utilization/gpu":
		c.stats.Utilization = text.Share(c.measure(value))
	case "board power/total", "board power/power/total":
		c.stats.Power = text.Watts(c.measure(value))
	case "board power/limit", "board power/power/limit":
		c.stats.PowerLimit = text.Positive(text.Watts(c.measure(value)))
	case "version/kmd":
		c.device.DriverVersion = text.String(value)
	case "version/bios":
		c.device.FirmwareVersion = text.String(value)
	case "serial number/board serial":
		c.device.Serial = text.String(value)
	}
}

// measure returns value when it has a unit, as the log prints every measured
// value: without one it was cut, perhaps within the number.
func (c *card) measure(value string) string {
	if _, unit, ok := text.Number(value); !ok || unit == "" && !c.bare {
		return ""
	}
	return value
}

func fold(s string) string {
	return strings.ToLower(strings.Join(strings.Fields(strings.ReplaceAll(s, "_", " ")), " "))
}
