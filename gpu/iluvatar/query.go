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
				Index: number(m[1]), Model: text.String(m[2]), UUID: text.String(m[3]),
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
	var above sections
	for _, line := range in.lines {
		if m := cardHead.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			cards, above = append(cards, &card{device: gpu.Device{Index: number(m[2]), BusID: text.BusID(m[1])}}), nil
			continue
		}
		key, value, ok := text.KeyValue(line)
		section := above.place(line)
		switch {
		case !ok || value == "":
			above.open(line)
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

// sections are the headings above a line, outermost first; the card's own values
// are indented once.
type sections []struct {
	indent int
	name   string
}

// place leaves the sections that line is not in, and returns the innermost that
// it is in.
func (s *sections) place(line string) string {
	indent := indentation(line)
	for len(*s) > 0 && (*s)[len(*s)-1].indent >= indent {
		*s = (*s)[:len(*s)-1]
	}
	if len(*s) == 0 {
		return ""
	}
	return (*s)[len(*s)-1].name
}

// open enters the section whose heading line is.
func (s *sections) open(line string) {
	if name := strings.TrimRight(strings.TrimSpace(line), " :"); name != "" {
		*s = append(*s, struct {
			indent int
			name   string
		}{indentation(line), name})
	}
}

func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }

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
