package enflame

import (
	"errors"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// forms are the forms of output, in the order in which they are tried. Each
// returns false for text that is not of its form.
var forms = []func(lines []string) (gpu.Parsed, bool){
	parseTable,
	parseQuery,
	parseDmon,
	parseList,
	toolErrors.Parse,
}

// Parse says what an output of efsmi means, whichever of its forms it is.
// Arguments and exit status are not looked at: the content tells the forms apart.
func Parse(_ []string, _ int, output []byte) (gpu.Parsed, error) {
	lines := text.Lines(output)
	for _, form := range forms {
		if p, ok := form(lines); ok {
			p.BlameUnlisted(toolErrors.OfCards(lines))
			return p, nil
		}
	}
	return gpu.Parsed{}, errors.New("not a known form of efsmi's output")
}

// card is what an output says of one card.
type card struct {
	device  gpu.Device
	stats   gpu.Stats
	pci     pciFields
	failure string // what the tool says is wrong with it
	code    string
	remark  string // an error in place of values
	said    bool   // it has values, too
}

// cards are the cards of an output in the order in which they were printed.
type cards []*card

// at returns the card with that number, which is its index, and whether it was
// there before.
func (c *cards) at(number int) (one *card, known bool) {
	for _, have := range *c {
		if *have.device.Index == number {
			return have, true
		}
	}
	one = &card{device: gpu.Device{Index: new(number), Vendor: gpu.Enflame, Type: gpu.Enflame}}
	*c = append(*c, one)
	return one, false
}

func (c cards) parsed() gpu.Parsed {
	var p gpu.Parsed
	for _, one := range c {
		d, s := one.device, one.stats
		if one.remark != "" && !one.said {
			one.failure, one.code = one.remark, CodeCardFailed
		}
		if d.BusID == "" {
			d.BusID = one.pci.busID()
		}
		p.GPUs = append(p.GPUs, d)
		if s != (gpu.Stats{}) || d.MemoryTotal != nil {
			s.Index, s.UUID, s.MemoryTotal = d.Index, d.UUID, d.MemoryTotal
			p.Stats = append(p.Stats, s)
		}
		if one.failure != "" {
			p.Failures = append(p.Failures, gpu.Failure{
				Index: d.Index, UUID: d.UUID, BusID: d.BusID, Code: one.code, Message: one.failure,
			})
		}
	}
	return p
}
