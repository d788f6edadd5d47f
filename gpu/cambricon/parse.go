package cambricon

import (
	"errors"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

const toolName = "cnmon"

// forms are the forms of output, in the order in which they are tried. Each
// returns false for text that is not of its form.
var forms = []func(lines []string, asked *int) (gpu.Parsed, bool){
	parseTable,
	parseJSON,
	parseInfo,
	parseTopology,
	parseNone,
	parseError,
}

// Parse says what an output of cnmon means, whichever of its forms it is: the
// table, "cnmon info" with any options, as text or JSON, "cnmon -l", "cnmon topo
// -m". The content tells the forms apart; of the arguments only "-c CARD" is used,
// where the output does not repeat the card. The exit status is not looked at.
func Parse(argv []string, _ int, output []byte) (gpu.Parsed, error) {
	lines := text.Lines(output)
	asked := askedCard(argv)
	for _, form := range forms {
		if p, ok := form(lines, asked); ok {
			p.Failures = append(p.Failures, cardErrors(lines, p.GPUs)...)
			return p, nil
		}
	}
	return gpu.Parsed{}, errors.New("not a known form of cnmon's output")
}

// askedCard returns the card of "-c CARD".
func askedCard(argv []string) *int {
	args, _ := text.ToolArgs(argv, toolName)
	for i := range len(args) - 1 {
		if args[i] == "-c" {
			return number(args[i+1])
		}
	}
	return nil
}

// number returns the card or process number that s is, or nil.
func number(s string) *int {
	if n := text.Int(s); n != nil && *n >= 0 {
		return n
	}
	return nil
}

// card is what an output says of one card.
type card struct {
	number  *int // nil where the text does not say
	device  gpu.Device
	stats   gpu.Stats
	failure *gpu.Failure // without the card's identity
}

// result puts the cards together. A card without a number has its place as its
// index, but only where no card has a number: elsewhere it could take the index
// of another, and is left out.
func result(cards []*card) gpu.Parsed {
	numbered, seen := false, map[int]bool{}
	for _, c := range cards {
		numbered = numbered || c.number != nil
	}
	var p gpu.Parsed
	for i, c := range cards {
		if numbered && (c.number == nil || seen[*c.number]) {
			continue
		}
		d := c.device
		d.Vendor, d.Type, d.Index = gpu.Cambricon, gpu.Cambricon, new(i)
		if c.number != nil {
			seen[*c.number] = true
			d.Index, d.Card, d.Minor = c.number, c.number, c.number // of /dev/cambricon_devN
		}
		p.GPUs = append(p.GPUs, d)
		s := c.stats
		if s != (gpu.Stats{}) || d.MemoryTotal != nil {
			s.Index, s.UUID, s.MemoryTotal = d.Index, d.UUID, d.MemoryTotal
			p.Stats = append(p.Stats, s)
		}
		if f := c.failure; f != nil {
			f.Index, f.UUID, f.BusID = d.Index, d.UUID, d.BusID
			p.Failures = append(p.Failures, *f)
		}
	}
	return p
}
