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
