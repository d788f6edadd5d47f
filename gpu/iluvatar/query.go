package iluvatar

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var (
	// "GPU 00000000:0C:00.0", "GPU 0"
	cardHead = text.Lazy(`^GPU\s+(?:((?:[0-9A-Fa-f]{4,8}:)[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])|(\d{1,4}))\s*$`)
	// "GPU  0: Iluvatar BI-V100 (UUID: GPU-…)"
	listRow = text.Lazy(`^\s*GPU\s+(\d{1,4})\s*:\s*(.*?)\s*\(UUID\s*:\s*([^)\s]*)\s*\)`)
	lspci   = text.Lazy(`^\s*((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s.*\[1e3e:[0-9a-f]{4}\]`)
)

// parseList reads -L.
func parseList(in input) (gpu.Parsed, bool) {
	var cards []*card
	for _, line := range in.lines {
		if m := listRow.FindStringSubmatch(line); m != nil {
			cards = append(cards, &card{device: gpu.Device{
				Index: text.Natural(m[1]), Model: text.String(m[2]), UUID: text.String(m[3]),
			}})
		}
	}
	return result(cards), len(cards) > 0
}

// parseQuery reads "-q" with any "-d": a heading for each card, below it sections
// and values, told apart by indentation.
func parseQuery(in input) (gpu.Parsed, bool) {
	var cards []*card
	driver := ""
	var above text.Sections
	for _, line := range in.lines {
		if m := cardHead.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			cards, above = append(cards, &card{device: gpu.Device{Index: text.Natural(m[2]), BusID: text.BusID(m[1])}}), nil
			continue
		}
		key, value, ok := text.KeyValue(line)
		section := above.Place(line)
		switch {
		case !ok || value == "":
			above.Open(line)
		case len(cards) > 0 && fold(section) == "processes":
			cards[len(cards)-1].process(key, value)
		case len(cards) > 0:
			cards[len(cards)-1].set(section, key, value)
		case key == "Driver Version":
			driver = text.String(value)
		}
	}
	for _, c := range cards {
		c.device.DriverVersion = driver
	}
	return result(cards), len(cards) > 0
}

// parseLspci reads "lspci -nn", which people run beside ixsmi. It knows addresses
// only; what else it lists is not looked at.
func parseLspci(in input) (gpu.Parsed, bool) {
	var p gpu.Parsed
	for _, line := range in.lines {
		if m := lspci.FindStringSubmatch(line); m != nil {
			p.GPUs = append(p.GPUs, gpu.Device{Vendor: gpu.Iluvatar, Type: gpu.Iluvatar, BusID: text.BusID(m[1])})
		}
	}
	return p, len(p.GPUs) > 0
}
