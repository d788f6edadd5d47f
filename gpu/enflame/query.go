package enflame

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var (
	cardHead = text.Lazy(`^\s*DEV ID\s*:?\s*(\d{1,4})\s*$`)
	failing  = text.Lazy(`(?i)\b(?:error|failed|fail|unable|timeout)\b`)
)

// parseQuery reads "-q" with any "-d": a heading for each card, below it sections
// and values. Sections are told by having no value, not by indentation: a
// subsection may be indented like its values.
func parseQuery(lines []string) (gpu.Parsed, bool) {
	var found cards
	var current *card
	section := ""
	for _, line := range lines {
		if m := cardHead.FindStringSubmatch(line); m != nil {
			current, section = nil, ""
			if n := number(m[1]); n != nil {
				current, _ = found.at(*n)
			}
			continue
		}
		if current == nil {
			continue
		}
		key, value, ok := text.KeyValue(line)
		name := strings.TrimRight(strings.TrimSpace(line), " :")
		switch {
		case section == "" && failing.MatchString(line):
			current.remark = name
		case ok && value != "":
			current.set(section, key, value)
		case name != "":
			section = name
		}
	}
	return found.parsed(), len(found) > 0
}

// set takes in one value. Keys are compared whole: "Dev" is the PCI device, and
// only the section tells the card's "Total Size" from that of a BAR.
func (c *card) set(section, key, value string) {
	c.said = true
	if section == "PCIe Info" {
		c.setPCI(key, value)
		return
	}
	switch section + "/" + key {
	case "Driver Info/Ver":
		c.device.DriverVersion = text.String(value)
	case "Device Info/Dev Name":
		c.device.Model = text.String(value)
	case "Device Info/Dev UUID":
		c.device.UUID = text.String(value)
	case "Device Info/Dev SN":
		c.device.Serial = text.String(value)
	case "Device Info/Health":
		c.health(value)
	case "Power Info/Cur Power":
		c.stats.Power = text.Watts(measure(value))
	case "Power Info/Power Capa":
		c.stats.PowerLimit = positive(text.Watts(measure(value)))
	case "Device Mem Info/Total Size", "Device Mem Info/Mem Size":
		c.device.MemoryTotal = positive(text.Bytes(value, ""))
	case "Device Mem Info/Used Size", "Device Mem Info/Mem Usage":
		c.stats.MemoryUsed = text.Bytes(value, "")
	case "Temperature Info/GCU Temp":
		c.stats.Temperature = text.Celsius(measure(value))
	case "Device Usage Info/GCU Usage":
		c.stats.Utilization = percent(measure(value))
	}
}

func (c *card) health(word string) {
	switch word {
	case "True":
		c.stats.Health = gpu.HealthOK
	case "False":
		c.stats.Health, c.stats.HealthMessage = gpu.HealthFailed, "Health: False"
		c.failure, c.code = "Health: False", CodeUnhealthy
	default:
		c.stats.HealthMessage = text.String(word)
	}
}

// measure returns value when it has a unit, as every measured value has: without
// one it was cut, perhaps within the number.
func measure(value string) string {
	if _, unit, ok := text.Number(value); !ok || unit == "" {
		return ""
	}
	return value
}

// pciFields is the address as the query prints it, field by field, in hex.
type pciFields struct{ domain, bus, device, function *uint64 }

func (c *card) setPCI(key, value string) {
	switch key {
	case "Domain":
		c.pci.domain = hex(value)
	case "Bus":
		c.pci.bus = hex(value)
	case "Dev":
		c.pci.device = hex(value)
	case "Func":
		c.pci.function = hex(value)
	}
}

// busID returns "" unless bus and device were said.
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

// hex returns the value of "2a", or nil.
func hex(s string) *uint64 {
	n, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(s), "0x"), 16, 32)
	if err != nil {
		return nil
	}
	return &n
}
