package iluvatar

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu/text"
)

// set takes in one value of the query, which as XML and as text has the same
// sections and keys but for case and blanks: "memory_usage/total" is "FB Memory
// Usage/Total". Version 3 has "power_draw" where 4 has "gpu_power_draw".
func (c *card) set(section, key, value string) {
	section, key = fold(section), fold(key)
	switch section + "/" + key {
	case "memory_usage/total", "fb_memory_usage/total":
		c.device.MemoryTotal = text.Positive(text.Bytes(value, ""))
	case "memory_usage/used", "fb_memory_usage/used":
		c.stats.MemoryUsed = text.Bytes(value, "")
	case "utilization/gpu_util", "utilization/gpu":
		c.stats.Utilization = text.Share(text.WithUnit(value))
	case "temperature/gpu_temp", "temperature/gpu_current_temp", "temperature/gpu":
		c.stats.Temperature = text.Celsius(text.WithUnit(value))
	case "pci/pci_bus_id", "pci/bus_id":
		if bus := text.BusID(value); bus != "" {
			c.device.BusID = bus
		}
	default:
		if section == "" {
			c.identity(key, value)
		} else if strings.Contains(section, "power_readings") {
			c.power(key, value)
		}
	}
}

func (c *card) identity(key, value string) {
	switch key {
	case "product_name":
		c.device.Model = text.String(value)
	case "serial", "serial_number":
		c.device.Serial = text.String(value)
	case "uuid", "gpu_uuid":
		c.device.UUID = text.String(value)
	case "minor_number":
		c.device.Minor = text.Natural(value)
	case "vbios_version", "firmware_version":
		c.device.FirmwareVersion = text.String(value)
	}
}

// power prefers the chip's own values to the board's.
func (c *card) power(key, value string) {
	watts := text.Watts(text.WithUnit(value))
	switch key {
	case "gpu_power_draw", "power_draw":
		if watts != nil {
			c.stats.Power = watts
		}
	case "board_power_draw":
		if c.stats.Power == nil {
			c.stats.Power = watts
		}
	case "current_gpu_power_limit", "gpu_current_power_limit", "current_power_limit", "power_limit":
		if watts != nil {
			c.stats.PowerLimit = text.Positive(watts)
		}
	case "current_board_power_limit", "board_current_power_limit":
		if c.stats.PowerLimit == nil {
			c.stats.PowerLimit = text.Positive(watts)
		}
	}
}

func fold(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), "_")) }
