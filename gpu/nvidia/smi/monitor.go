package smi

import (
	"slices"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// monitorColumns are those of dmon that are of interest, of drivers 340 to 610;
// "temp" became "gtemp" when the memory's came.
var monitorColumns = map[string]field{
	"gpu": fieldIndex, "pwr": fieldPower, "temp": fieldTemperature, "gtemp": fieldTemperature,
	"sm": fieldUtilization, "fb": fieldMemoryUsed,
}

// readMonitor reads dmon and pmon. Of several samples of a card the last counts;
// which columns there are is the caller's choice. With MIG, dmon has further rows
// of a card's instances, and its own row is the one without.
func (d *document) readMonitor() bool {
	what := ""
	rows, ok := text.Monitor(d.lines, func(names []string) bool {
		if len(names) < 2 || !slices.Contains(names, "gpu") {
			return false
		}
		what = "dmon"
		if slices.Contains(names, "pid") {
			what = "pmon"
		}
		return true
	})
	for i, row := range rows {
		switch index := text.Natural(row["gpu"]); {
		case index == nil:
		case what == "pmon":
			d.monitorProcess(*index, row)
		case text.Absent(row["mig"]): // "" too: no such column
			c := &card{line: i}
			for name, value := range row {
				c.set(monitorColumns[name], value)
			}
			*d.card(*index, i) = *c
		}
	}
	return ok
}

func (d *document) monitorProcess(index int, row map[string]string) {
	pid := text.Natural(row["pid"])
	if pid == nil || *pid == 0 {
		return
	}
	name := row["command"]
	if name == "" {
		name = row["name"]
	}
	p := gpu.Process{PID: *pid, Name: text.String(name), Index: &index, MemoryUsed: text.MiB(row["fb"])}
	at := slices.IndexFunc(d.parsed.Processes, func(have gpu.Process) bool {
		return have.PID == p.PID && *have.Index == index
	})
	if at < 0 {
		d.parsed.Processes = append(d.parsed.Processes, p)
	} else {
		d.parsed.Processes[at] = p
	}
}
