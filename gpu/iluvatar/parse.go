package iluvatar

import (
	"errors"
	"slices"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// input is an output with the arguments that led to it.
type input struct {
	raw   []byte
	lines []string
	args  []string
}

// forms are the forms of output, in the order in which they are tried. Each
// returns false for text that is not of its form.
var forms = []func(input) (gpu.Parsed, bool){
	parseXML,
	parseTable,
	parseTopology,
	parseList,
	parsePmon,
	parseDmon,
	parseCSV,
	parseQuery,
	parseError,
	parseLspci,
	parseAnswer,
}

// Parse says what an output of ixsmi means, whichever of its forms it is. The
// content tells the forms apart; the arguments name the columns of a CSV that
// has no header. The exit status is not looked at.
func Parse(argv []string, _ int, output []byte) (gpu.Parsed, error) {
	args, _ := text.ToolArgs(argv, toolName)
	in := input{raw: output, lines: text.Lines(output), args: args}
	for _, form := range forms {
		if p, ok := form(in); ok {
			p.BlameUnlisted(toolErrors.OfCards(in.lines))
			return p, nil
		}
	}
	return gpu.Parsed{}, errors.New("not a known form of ixsmi's output")
}

func parseTopology(in input) (gpu.Parsed, bool) {
	t := gpu.ParseMatrix(gpu.Iluvatar, in.lines)
	return gpu.Parsed{Topology: t}, t != nil
}

var answers = text.Lazy(`(?i)no device supported for ixlink|^GPU [0-9a-f:.]+\s+was successfully reset`)

// parseAnswer recognises what tells nothing of a card: "ixlink -s" where cards have
// no links, and a reset that was done.
func parseAnswer(in input) (gpu.Parsed, bool) {
	return gpu.Parsed{}, slices.ContainsFunc(in.lines, answers.MatchString)
}

// card is what an output says of one card.
type card struct {
	device    gpu.Device
	stats     gpu.Stats
	processes []gpu.Process
}

// process takes in one value of the last process that the query lists below its
// card. As text, the pid begins the next one.
func (c *card) process(key, value string) {
	key = fold(key)
	if key == "process_id" {
		c.processes = append(c.processes, gpu.Process{})
	}
	if len(c.processes) == 0 {
		return
	}
	switch p := &c.processes[len(c.processes)-1]; key {
	case "process_id", "pid":
		if pid := text.Natural(value); pid != nil {
			p.PID = *pid
		}
	case "name", "process_name":
		p.Name = text.String(value)
	case "used_gpu_memory", "used_memory":
		p.MemoryUsed = text.MiB(value)
	}
}

// sentinelWatts is what a hung card reads.
const sentinelWatts = 65535

// result puts the cards together in the order in which they were printed. A card
// without a number has its place as its index, as ixsmi counts, but only where
// no card has a number; a second card of one number is left out.
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
		d.Vendor, d.Type = gpu.Iluvatar, gpu.Iluvatar
		p.GPUs = append(p.GPUs, d)
		if s.Power != nil && *s.Power >= sentinelWatts {
			// Temperature and utilization come from the same dead sensor.
			s.Power, s.Temperature, s.Utilization = nil, nil, nil
			s.Health, s.HealthMessage = gpu.HealthFailed, "the card does not answer: it reads 65535W"
			p.Failures = append(p.Failures, gpu.Failure{
				Index: d.Index, UUID: d.UUID, BusID: d.BusID, Code: CodeHung, Message: s.HealthMessage,
			})
		}
		for _, process := range c.processes {
			if process.Index = d.Index; process.PID > 0 {
				p.Processes = append(p.Processes, process)
			}
		}
		if s != (gpu.Stats{}) || d.MemoryTotal != nil {
			s.Index, s.UUID, s.MemoryTotal = d.Index, d.UUID, d.MemoryTotal
			p.Stats = append(p.Stats, s)
		}
	}
	return p
}
