package musa

import (
	"fmt"
	"strconv"
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
		if n := number(value); n != nil {
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
		c.device.MemoryTotal = positive(text.Bytes(value, ""))
	case "fb memory usage/used":
		c.stats.MemoryUsed = text.Bytes(value, "")
	case "utilization/gpu":
		c.stats.Utilization = percent(measure(value))
	case "temperature/gpu current temp":
		c.stats.Temperature = text.Celsius(measure(value))
	case "power readings/power draw":
		c.stats.Power = text.Watts(measure(value))
	case "power readings/current power limit":
		c.stats.PowerLimit = positive(text.Watts(measure(value)))
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

// measure returns value when it has a unit, as every measured value has: without
// one it was cut, perhaps within the number.
func measure(value string) string {
	if _, unit, ok := text.Number(value); !ok || unit == "" {
		return ""
	}
	return value
}

func fold(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), " ")) }

// pciFields is the address as the text prints it, field by field: "Bus : 0x2A".
type pciFields struct{ domain, bus, device, function *uint64 }

func (c *card) setPCI(key, value string) {
	switch key {
	case "bus id":
		c.device.BusID = text.BusID(value)
	case "domain":
		c.pci.domain = hex(value)
	case "bus":
		c.pci.bus = hex(value)
	case "device":
		c.pci.device = hex(value)
	case "function":
		c.pci.function = hex(value)
	}
}

// busID returns "" unless the bus and the device were said.
func (p pciFields) busID() string {
	if p.bus == nil || p.device == nil {
		return ""
	}
	var domain, function uint64
	if p.domain != nil {
		domain = *p.domain
	}
	if p.function != nil {
		function = *p.function
	}
	return text.BusID(fmt.Sprintf("%x:%x:%x.%x", domain, *p.bus, *p.device, function))
}

// hex returns the value of "0x2A" or "2A", or nil.
func hex(s string) *uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "0x"), 16, 32)
	if err != nil {
		return nil
	}
	return &n
}
