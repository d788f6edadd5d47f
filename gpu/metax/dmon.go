package metax

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// parseDmon reads "dmon": a line of names, a line of units, a line for each die
// of each card, with blanks or commas between. A card is as its first die; of
// several samples the last counts. Memory is a share of an amount that most
// releases do not print.
func parseDmon(_ []byte, lines []string) (gpu.Parsed, bool) {
	var names, units []string
	var found cards
	for _, line := range lines {
		words := split(line)
		switch {
		case len(words) > 2 && words[0] == "dev" && slices.Contains(words, "gpu"):
			names, units = words, nil
		case names != nil && units == nil:
			units = words
		case names != nil && len(words) == len(names):
			found.sample(names, words)
		}
	}
	return found.parsed(), names != nil
}

// split splits a line at commas where it has some, else at blanks.
func split(line string) []string {
	if !strings.Contains(line, ",") {
		return strings.Fields(line)
	}
	words := strings.Split(strings.TrimRight(strings.TrimSpace(line), ","), ",")
	for i := range words {
		words[i] = strings.TrimSpace(words[i])
	}
	return words
}

func (c *cards) sample(names, words []string) {
	value := func(name string) string {
		if i := slices.Index(names, name); i >= 0 {
			return words[i]
		}
		return ""
	}
	n := number(value("dev"))
	if die := value("die"); n == nil || die != "" && die != "0" {
		return
	}
	one := c.at(*n)
	one.device.BusID = text.BusID(value("bdfid"))
	one.device.MemoryTotal = positive(text.Bytes(value("total"), "GB"))
	one.stats = gpu.Stats{
		Temperature: text.Celsius(value("hottemp")),
		Power:       text.Watts(value("power")),
		Utilization: percent(value("gpu")),
	}
}
