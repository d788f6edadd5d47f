package iluvatar

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// parseDmon reads "dmon": "# gpu pwr gtemp …", a line of units, and a line for
// each card until it is stopped. Of several samples the last counts.
func parseDmon(in input) (gpu.Parsed, bool) {
	var names []string
	var cards []*card
	for _, line := range in.lines {
		words := strings.Fields(line)
		if len(words) > 2 && words[0] == "#" {
			if words[1] == "gpu" && slices.Contains(words, "sm") {
				names = words[1:]
			}
			continue
		}
		if names == nil || len(words) != len(names) {
			continue
		}
		c := &card{}
		for i, name := range names {
			switch name {
			case "gpu":
				c.device.Index = number(words[i])
			case "pwr":
				c.stats.Power = text.Watts(words[i])
			case "gtemp":
				c.stats.Temperature = text.Celsius(words[i])
			case "sm":
				c.stats.Utilization = percent(words[i])
			}
		}
		if c.device.Index == nil {
			continue
		}
		have := slices.IndexFunc(cards, func(old *card) bool { return *old.device.Index == *c.device.Index })
		if have < 0 {
			cards = append(cards, c)
		} else {
			cards[have] = c
		}
	}
	return result(cards), names != nil
}

// parsePmon reads "pmon", a line for each process; a card without one has dashes.
func parsePmon(in input) (gpu.Parsed, bool) {
	var p gpu.Parsed
	var names []string
	for _, line := range in.lines {
		words := strings.Fields(line)
		if len(words) > 2 && words[0] == "#" {
			if words[1] == "gpu" && words[2] == "pid" {
				names = words[1:]
			}
			continue
		}
		if names == nil || len(words) < len(names) {
			continue
		}
		index, pid := number(words[0]), number(words[1])
		if index == nil || pid == nil || *pid == 0 {
			continue
		}
		process := gpu.Process{PID: *pid, Index: index}
		if names[len(names)-1] == "command" { // the last column may have blanks
			process.Name = text.String(strings.Join(words[len(names)-1:], " "))
		}
		p.Processes = append(p.Processes, process)
	}
	return p, names != nil
}
