package metax

import (
	"errors"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// forms are the forms of output, in the order in which they are tried. Each
// returns false for text that is not of its form.
var forms = []func(output []byte, lines []string) (gpu.Parsed, bool){
	parseTable,
	parseTopology,
	parseDmon,
	parseLog,
	parseJSON,
	parseError,
	parseNoCards,
}

// Parse says what an output of mx-smi means, whichever of its forms it is.
// Arguments and exit status are not looked at: the content tells the forms apart.
func Parse(_ []string, _ int, output []byte) (gpu.Parsed, error) {
	lines := text.Lines(output)
	for _, form := range forms {
		if p, ok := form(output, lines); ok {
			return p, nil
		}
	}
	return gpu.Parsed{}, errors.New("not a known form of mx-smi's output")
}

func parseTopology(_ []byte, lines []string) (gpu.Parsed, bool) {
	t := gpu.ParseMatrix(gpu.MetaX, lines)
	return gpu.Parsed{Topology: t}, t != nil
}

// parseNoCards recognises a log that says that there is none.
func parseNoCards(_ []byte, lines []string) (gpu.Parsed, bool) {
	return gpu.Parsed{}, slices.ContainsFunc(lines, func(line string) bool {
		key, value, ok := text.KeyValue(line)
		return ok && key == "Attached GPUs" && strings.TrimSpace(value) == "0"
	})
}

// card is what an output says of one card.
type card struct {
	device  gpu.Device
	stats   gpu.Stats
	failure string // the tool's words, when the card is not available
	foreign bool   // in the list, but not given to this container
	bare    bool   // numbers come without units
}

// cards are the cards of an output in the order in which they were printed.
type cards []*card

// at returns the card with that number, which is its index.
func (c *cards) at(number int) *card {
	for _, have := range *c {
		if *have.device.Index == number {
			return have
		}
	}
	added := &card{device: gpu.Device{Index: new(number), Vendor: gpu.MetaX, Type: gpu.MetaX}}
	*c = append(*c, added)
	return added
}

// parsed puts the cards together. When none of the listed ones is accessible,
// that is the tool's failure.
func (c cards) parsed() gpu.Parsed {
	var p gpu.Parsed
	for _, one := range c {
		if one.foreign {
			continue
		}
		d, s := one.device, one.stats
		p.GPUs = append(p.GPUs, d)
		if s != (gpu.Stats{}) || d.MemoryTotal != nil {
			s.Index, s.UUID, s.MemoryTotal = d.Index, d.UUID, d.MemoryTotal
			p.Stats = append(p.Stats, s)
		}
		if one.failure != "" {
			p.Failures = append(p.Failures, gpu.Failure{
				Index: d.Index, UUID: d.UUID, BusID: d.BusID, Code: CodeNotAvailable, Message: one.failure,
			})
		}
	}
	if len(c) > 0 && len(p.GPUs) == 0 {
		p.CollectorError = &gpu.CollectorError{Code: CodeNoAccess, Message: c[0].failure}
	}
	return p
}

// state takes in the word for a card's state.
func (c *card) state(word string) {
	word = text.String(word)
	switch lower := strings.ToLower(word); {
	case lower == "":
	case lower == "available":
		c.stats.Health = gpu.HealthOK
	case strings.HasPrefix(lower, "not available"), strings.HasPrefix(lower, "unavailable"), strings.HasPrefix(lower, "error"):
		c.unavailable(word)
	default:
		c.stats.HealthMessage = word
	}
}

// unavailable takes in why a card is not available. One whose files in sysfs
// cannot be read belongs to another container.
func (c *card) unavailable(reason string) {
	c.failure = reason
	if strings.Contains(strings.ToLower(reason), "sysfs file unaccessible") {
		c.foreign = true
		return
	}
	c.stats.Health, c.stats.HealthMessage = gpu.HealthFailed, reason
}
