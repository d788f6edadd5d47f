package enflame

import (
	"math"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// parseDmon reads "--dmon". Of several samples the last counts. Used memory is a
// share of the total, which includes what the driver reserves.
func parseDmon(lines []string) (gpu.Parsed, bool) {
	rows, ok := text.Monitor(lines, func(names []string) bool { return len(names) > 2 && names[0] == "Dev" })
	var found cards
	for _, row := range rows {
		n := text.Natural(row["Dev"])
		if n == nil {
			continue
		}
		c, _ := found.at(*n)
		c.device.MemoryTotal = text.Positive(text.MiB(row["Mem"]))
		c.stats = gpu.Stats{
			Power:       text.Watts(row["Pwr"]),
			Temperature: text.Celsius(row["DTemp"]),
			Utilization: text.Share(row["DUsed"]),
		}
		if share, total := text.Share(row["MUsed"]), c.device.MemoryTotal; share != nil && total != nil {
			c.stats.MemoryUsed = new(int64(math.Round(float64(*total) * *share / 100)))
		}
	}
	return found.parsed(), ok
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
		bus, n := text.BusID(words[max(slices.Index(titles, "Bus"), 0)]), text.Natural(words[0])
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
