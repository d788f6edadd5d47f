package iluvatar

import (
	"slices"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// parseDmon reads "dmon". Of several samples the last counts.
func parseDmon(in input) (gpu.Parsed, bool) {
	rows, ok := text.Monitor(in.lines, func(names []string) bool {
		return len(names) > 2 && names[0] == "gpu" && slices.Contains(names, "sm") && !slices.Contains(names, "pid")
	})
	var cards []*card
	for _, row := range rows {
		c := &card{device: gpu.Device{Index: text.Natural(row["gpu"])}, stats: gpu.Stats{
			Power: text.Watts(row["pwr"]), Temperature: text.Celsius(row["gtemp"]), Utilization: text.Share(row["sm"]),
		}}
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
	return result(cards), ok
}

// parsePmon reads "pmon"; a card without a process has dashes.
func parsePmon(in input) (gpu.Parsed, bool) {
	rows, ok := text.Monitor(in.lines, func(names []string) bool {
		return len(names) > 2 && names[0] == "gpu" && names[1] == "pid"
	})
	var p gpu.Parsed
	for _, row := range rows {
		index, pid := text.Natural(row["gpu"]), text.Natural(row["pid"])
		if index == nil || pid == nil || *pid == 0 {
			continue
		}
		p.Processes = append(p.Processes, gpu.Process{PID: *pid, Index: index, Name: text.String(row["command"])})
	}
	return p, ok
}
