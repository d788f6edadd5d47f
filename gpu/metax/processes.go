package metax

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// processRow is a process: card, pid, name (cut at 15 bytes), memory in MiB.
var processRow = text.Lazy(`^(\d{1,4})\s+(\d{1,10})\s+(\S.*?)\s+(\S+)$`)

func isProcessTitle(cell string) bool { return cell == "Process:" || cell == "Processes:" }

// readProcesses reads the rows below a title. An empty table does not mean idle
// cards: processes of other containers are not in it.
func readProcesses(lines []string) []gpu.Process {
	var found []gpu.Process
	for _, line := range lines {
		cells := text.Cells(line)
		if len(cells) != 1 {
			continue
		}
		m := processRow.FindStringSubmatch(strings.TrimSpace(cells[0]))
		if m == nil {
			continue
		}
		pid, used := text.Natural(m[2]), text.MiB(m[4])
		if pid == nil || *pid == 0 || used == nil && !text.Absent(m[4]) {
			continue
		}
		found = append(found, gpu.Process{PID: *pid, Name: text.String(m[3]), Index: text.Natural(m[1]), MemoryUsed: used})
	}
	return found
}
