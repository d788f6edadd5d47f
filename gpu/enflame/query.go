package enflame

import (
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
			if n := text.Natural(m[1]); n != nil {
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
		c.stats.Power = text.Watts(text.WithUnit(value))
	case "Power Info/Power Capa":
		c.stats.PowerLimit = text.Positive(text.Watts(text.WithUnit(value)))
	case "Device Mem Info/Total Size", "Device Mem Info/Mem Size":
		c.device.MemoryTotal = text.Positive(text.Bytes(value, ""))
	case "Device Mem Info/Used Size", "Device Mem Info/Mem Usage":
		c.stats.MemoryUsed = text.Bytes(value, "")
	case "Temperature Info/GCU Temp":
		c.stats.Temperature = text.Celsius(text.WithUnit(value))
	case "Device Usage Info/GCU Usage":
		c.stats.Utilization = text.Share(text.WithUnit(value))
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

// pciFields is the address as the query prints it, field by field, in hex.
type pciFields struct{ domain, bus, device, function string }

func (c *card) setPCI(key, value string) {
	switch key {
	case "Domain":
		c.pci.domain = value
	case "Bus":
		c.pci.bus = value
	case "Dev":
		c.pci.device = value
	case "Func":
		c.pci.function = value
	}
}

func (p pciFields) busID() string { return text.JoinBusID(p.domain, p.bus, p.device, p.function) }
