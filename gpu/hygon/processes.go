package hygon

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var quoted = text.Lazy(`'(\d{1,4})'`)

// parseProcesses reads --showpids. It has no names; a process on several cards
// lists them, "['0'] ['1']", and its memory is their sum. (The numbers of "HCU
// Node" count the CPUs, too.)
func parseProcesses(_ []byte, lines []string) (gpu.Parsed, bool) {
	if p, ok := parseProcessTable(lines); ok {
		return p, true
	}
	var p gpu.Parsed
	known := false
	for _, line := range lines {
		if strings.Contains(line, "PIDs for KFD processes") || strings.Contains(line, "No KFD PIDs currently running") {
			known = true
			continue
		}
		key, value, ok := text.KeyValue(line)
		if !ok {
			continue
		}
		if key == "PID" {
			if pid := text.Int(value); pid != nil && *pid > 0 {
				p.Processes = append(p.Processes, gpu.Process{PID: *pid})
				known = true
			}
			continue
		}
		if len(p.Processes) == 0 {
			continue
		}
		process := &p.Processes[len(p.Processes)-1]
		switch {
		case strings.HasSuffix(key, " Index"):
			process.Index, process.Indexes = indexes(value)
		case strings.EqualFold(key, "VRAM USED(MiB)"):
			process.MemoryUsed = text.MiB(value)
		}
	}
	return p, known
}

var columnGap = text.Lazy(`\t+| {2,}`)

// parseProcessTable reads the table that rocm-smi's --showpids prints. "HCU(s)" is
// how many cards the process has, not which.
//
//	PID	PROCESS NAME	HCU(s)	VRAM USED	SDMA USED	CU OCCUPANCY
func parseProcessTable(lines []string) (gpu.Parsed, bool) {
	var p gpu.Parsed
	var header []string
	for _, line := range lines {
		cells := columnGap.Split(strings.TrimSpace(line), -1)
		if slices.Contains(cells, "PROCESS NAME") && cells[0] == "PID" {
			header = cells
			continue
		}
		pid := text.Natural(cells[0])
		if len(cells) != len(header) || pid == nil || *pid == 0 {
			continue
		}
		process := gpu.Process{PID: *pid}
		for i, column := range header {
			switch column {
			case "PROCESS NAME":
				if process.Name = text.String(cells[i]); process.Name == "UNKNOWN" {
					process.Name = ""
				}
			case "VRAM USED":
				process.MemoryUsed = text.Bytes(cells[i], "B")
			}
		}
		p.Processes = append(p.Processes, process)
	}
	return p, header != nil
}

// indexes returns one card, or several.
func indexes(value string) (*int, []int) {
	matches := quoted.FindAllStringSubmatch(value, -1)
	all := make([]int, 0, len(matches))
	for _, m := range matches {
		all = append(all, number(m[1]))
	}
	if len(all) == 1 {
		return &all[0], nil
	}
	return nil, all
}
