package enflame

import (
	"math"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// parseDmon reads "--dmon": a line of names and a line of units, each with a
// star, and a line for each card. Of several samples the last counts. Used memory
// is a share of the total, which includes what the driver reserves.
func parseDmon(lines []string) (gpu.Parsed, bool) {
	var names []string
	var found cards
	for _, line := range lines {
		words := strings.Fields(line)
		if len(words) > 2 && strings.HasPrefix(words[0], "*") {
			if words[0] == "*Dev" {
				names = words
			}
			continue
		}
		if names == nil || len(words) != len(names) {
			continue
		}
		if n := number(words[0]); n != nil {
			c, _ := found.at(*n)
			c.sample(names, words)
		}
	}
	return found.parsed(), names != nil
}

func (c *card) sample(names, words []string) {
	value := func(name string) string {
		if i := slices.Index(names, name); i >= 0 {
			return words[i]
		}
		return ""
	}
	total := positive(text.MiB(value("Mem")))
	c.device.MemoryTotal = total
	c.stats = gpu.Stats{
		Power:       text.Watts(value("Pwr")),
		Temperature: text.Celsius(value("DTemp")),
		Utilization: percent(value("DUsed")),
	}
	if share := percent(value("MUsed")); share != nil && total != nil {
		c.stats.MemoryUsed = new(int64(math.Round(float64(*total) * *share / 100)))
	}
}

var wideBlank = text.Lazy(`\s{2,}|\t`)

// parseList reads "-L": a heading, whose titles have blanks in them, and a line
// for each card. Below a card its instances (DRS) may follow; they have no bus.
func parseList(lines []string) (gpu.Parsed, bool) {
	var titles []string
	var found cards
	var near []gpu.Affinity
	for _, line := range lines {
		line = strings.TrimSpace(strings.Trim(strings.TrimSpace(line), "|*"))
		if strings.HasPrefix(line, "DEV") && strings.Contains(line, "Bus") {
			titles = wideBlank.Split(line, -1)
			continue
		}
		words := strings.Fields(line)
		if titles == nil || len(words) != len(titles) {
			continue
		}
		bus, n := text.BusID(words[max(slices.Index(titles, "Bus"), 0)]), number(words[0])
		if bus == "" || n == nil {
			continue
		}
		c, known := found.at(*n)
		if known {
			continue
		}
		c.device.BusID = bus
		for i, title := range titles {
			switch value := text.String(words[i]); title {
			case "SN":
				c.device.Serial = value
			case "UUID":
				c.device.UUID = value
			case "CPU Affinity":
				if value != "" {
					near = append(near, gpu.Affinity{Index: *n, CPUs: value})
				}
			}
		}
	}
	p := found.parsed()
	if len(near) > 0 {
		p.Topology = &gpu.Topology{Kind: string(gpu.Enflame), NUMA: near}
	}
	return p, titles != nil
}
