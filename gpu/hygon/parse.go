package hygon

import (
	"cmp"
	"errors"
	"slices"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// forms are the forms of output, in the order in which they are tried. Each
// returns false for text that is not of its form.
var forms = []func(output []byte, lines []string) (gpu.Parsed, bool){
	parseTable,
	parseJSON,
	parseProcesses,
	parseVirtual,
	parseLines,
	parseCSV,
	parseDriver,
	parseNone,
	parseError,
}

var errAMD = errors.New("this is AMD's rocm-smi, not Hygon's")

// Parse says what an output of hy-smi (or Hygon's rocm-smi, or hy-virtual) means,
// whichever of its forms it is. Arguments and exit status are not looked at: the
// content tells the forms apart, and the tool prints errors with status 0.
func Parse(_ []string, _ int, output []byte) (gpu.Parsed, error) {
	if isAMD(output) {
		return gpu.Parsed{}, errAMD
	}
	lines := text.Lines(output)
	for _, form := range forms {
		if p, ok := form(output, lines); ok {
			p.Failures = append(p.Failures, cardErrors(lines, p.GPUs)...)
			for i := range p.GPUs { // --showallinfo has it above the cards
				p.GPUs[i].DriverVersion = cmp.Or(p.GPUs[i].DriverVersion, driverVersion(lines))
			}
			return p, nil
		}
	}
	return gpu.Parsed{}, errors.New("not a known form of hy-smi's output")
}

var (
	hygonWord = text.Lazy(`(?i)\b[hd]cu\b|hygon|haiguang|\bC-3000\b`)
	amdWord   = text.Lazy(`Advanced Micro Devices|\bRadeon\b|\bInstinct\b`)
)

// isAMD reports whether the original rocm-smi printed this. Its heading is no
// sign of it: a Hygon tool may have kept that.
func isAMD(output []byte) bool { return amdWord.Match(output) && !isHygon(output) }

// isHygon reports whether an output shows whose tool it is.
func isHygon(output []byte) bool { return hygonWord.Match(output) }

// card is what an output says of one card.
type card struct {
	device gpu.Device
	stats  gpu.Stats
	cardValues
}

// cards are the cards of an output by number.
type cards map[int]*card

// at returns the card with that number, which is its index: it is what all the
// tool's options take, and gaps in it stay.
func (c cards) at(number int) *card {
	if c[number] == nil {
		c[number] = &card{device: gpu.Device{
			Index: new(number), Card: new(number), Vendor: gpu.Hygon, Type: gpu.Hygon,
		}}
	}
	return c[number]
}

// parsed returns the cards in the order of their numbers.
func (c cards) parsed() gpu.Parsed {
	var p gpu.Parsed
	numbers := make([]int, 0, len(c))
	for n := range c {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		one := c[n]
		s := one.stats
		s.Index, s.UUID, s.MemoryTotal = one.device.Index, one.device.UUID, one.device.MemoryTotal
		p.GPUs = append(p.GPUs, one.device)
		if measured(s) {
			p.Stats = append(p.Stats, s)
		}
		if one.failure != "" {
			p.Failures = append(p.Failures, gpu.Failure{
				Index: one.device.Index, UUID: one.device.UUID, BusID: one.device.BusID,
				Code: one.failure, Message: s.HealthMessage,
			})
		}
	}
	return p
}

func measured(s gpu.Stats) bool {
	s.Index, s.UUID = nil, ""
	return s != gpu.Stats{}
}
