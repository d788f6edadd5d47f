package musa

import (
	"errors"
	"slices"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// forms are the forms of output, in the order in which they are tried. Each
// returns false for text that is not of its form.
var forms = []func(output []byte, lines []string) (gpu.Parsed, bool){
	parseJSON,
	parseTable,
	parseProcessTable,
	parseList,
	parseTopology,
	parseQuery,
	parseError,
}

// Parse says what an output of mthreads-gmi means, whichever of its forms it is.
// Arguments and exit status are not looked at: the content tells the forms
// apart, and the tool prints errors with status 0.
func Parse(_ []string, _ int, output []byte) (gpu.Parsed, error) {
	lines := text.Lines(output)
	for _, form := range forms {
		if p, ok := form(output, lines); ok {
			p.BlameUnlisted(toolErrors.OfCards(lines))
			return p, nil
		}
	}
	return gpu.Parsed{}, errors.New("not a known form of mthreads-gmi's output")
}

func parseTopology(_ []byte, lines []string) (gpu.Parsed, bool) {
	t := gpu.ParseMatrix(gpu.MUSA, lines)
	return gpu.Parsed{Topology: t}, t != nil
}

// card is what an output says of one card.
type card struct {
	device gpu.Device
	stats  gpu.Stats
	pci    pciFields
	said   map[string]bool // the card's own values, not those of its sections
}

// result puts the cards together in the order in which they were printed. Where
// none has a number they are counted, as the tool counts them; elsewhere a card
// without a number, or with one that another has, is left out: what it measures
// could be taken for another card's.
func result(cards []*card) gpu.Parsed {
	var p gpu.Parsed
	numbered := slices.ContainsFunc(cards, func(c *card) bool { return c.device.Index != nil })
	seen := map[int]bool{}
	for i, c := range cards {
		d, s := c.device, c.stats
		if !numbered {
			d.Index = new(i)
		}
		if d.Index == nil || seen[*d.Index] {
			continue
		}
		seen[*d.Index] = true
		d.Vendor, d.Type = gpu.MUSA, gpu.MUSA
		if d.BusID == "" {
			d.BusID = c.pci.busID()
		}
		p.GPUs = append(p.GPUs, d)
		if s != (gpu.Stats{}) || d.MemoryTotal != nil {
			s.Index, s.UUID, s.MemoryTotal = d.Index, d.UUID, d.MemoryTotal
			s.HealthMessage = implausible(s)
			p.Stats = append(p.Stats, s)
		}
	}
	return p
}

// implausible remarks on a card that uses more memory than it has.
func implausible(s gpu.Stats) string {
	if s.MemoryUsed == nil || s.MemoryTotal == nil || *s.MemoryUsed <= *s.MemoryTotal {
		return ""
	}
	return "more memory is used than there is: the total is wrong, check the IOMMU and BAR settings"
}
