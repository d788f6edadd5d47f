package musa

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu/text"
)

// set takes in one value of the query, which as text and as JSON has the same
// sections and keys. One key ends in a blank ("Power Draw ").
func (c *card) set(section, key, value string) {
	section, key = fold(section), fold(key)
	if section == "pci" {
		c.setPCI(key, value)
		return
	}
	c.note(section, key)
	switch section + "/" + key {
	case "/index":
		if n := text.Natural(value); n != nil {
			c.device.Index = n
		}
	case "/product name":
		c.device.Model = text.String(value)
	case "/gpu uuid":
		c.device.UUID = text.String(value)
	case "/serial number":
		c.device.Serial = text.String(value)
	case "/mtbios version":
		c.device.FirmwareVersion = text.String(value)
	case "fb memory usage/total":
		c.device.MemoryTotal = text.Positive(text.Bytes(value, ""))
	case "fb memory usage/used":
		c.stats.MemoryUsed = text.Bytes(value, "")
	case "utilization/gpu":
		c.stats.Utilization = text.Share(text.WithUnit(value))
	case "temperature/gpu current temp":
		c.stats.Temperature = text.Celsius(text.WithUnit(value))
	case "power readings/power draw":
		c.stats.Power = text.Watts(text.WithUnit(value))
	case "power readings/current power limit":
		c.stats.PowerLimit = text.Positive(text.Watts(text.WithUnit(value)))
	}
}

func (c *card) note(section, key string) {
	if section != "" {
		return
	}
	if c.said == nil {
		c.said = map[string]bool{}
	}
	c.said[key] = true
}

func fold(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// pciFields is the address as the text prints it, field by field: "Bus : 0x2A".
type pciFields struct{ domain, bus, device, function string }

func (c *card) setPCI(key, value string) {
	switch key {
	case "bus id":
		c.device.BusID = text.BusID(value)
	case "domain":
		c.pci.domain = value
	case "bus":
		c.pci.bus = value
	case "device":
		c.pci.device = value
	case "function":
		c.pci.function = value
	}
}

func (p pciFields) busID() string { return text.JoinBusID(p.domain, p.bus, p.device, p.function) }
