package musa

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// processRow is a process: card, pid, name (which may have blanks, and may be
// cut on the left with "..."), memory.
var processRow = text.Lazy(`^\s*(\d{1,4})\s+(\d{1,10})\s+(\S.*?)\s+(\S+)\s*$`)

func isProcessHeader(line string) bool {
	return strings.HasPrefix(strings.TrimSpace(line), "Processes")
}

// parseProcessTable reads the processes alone, as people paste them.
func parseProcessTable(_ []byte, lines []string) (gpu.Parsed, bool) {
	for i, line := range lines {
		if isProcessHeader(line) {
			found, ok := readProcesses(lines[i:])
			return gpu.Parsed{Processes: found}, ok
		}
	}
	return gpu.Parsed{}, false
}

// readProcesses reads the rows below a header. ok is false when the text below
// is no process table.
func readProcesses(lines []string) (found []gpu.Process, ok bool) {
	for _, line := range lines {
		if strings.Contains(line, "PID") || strings.Contains(line, "No running processes found") {
			ok = true
			continue
		}
		m := processRow.FindStringSubmatch(line)
		if m == nil || !ok {
			continue
		}
		pid, used := text.Natural(m[2]), text.Bytes(m[4], "")
		if pid == nil || *pid == 0 || used == nil && !text.Absent(m[4]) {
			continue
		}
		found = append(found, gpu.Process{PID: *pid, Name: text.String(m[3]), Index: text.Natural(m[1]), MemoryUsed: used})
	}
	return found, ok
}
