package iluvatar

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var (
	banner   = text.Lazy(`IX-ML\s*:\s*\S+\s+Driver Version\s*:\s*(\S+)`)
	nameCell = text.Lazy(`^(\d{1,4})\s+(\S.*)$`)
	na       = text.Lazy(`(?i)\bN/A\b`)
	power    = text.Lazy(`(\S+)\s*/\s*(\S+)`)
)

// parseTable reads the default output, whose rows have two lines:
//
//	| 0    Iluvatar BI-V150         | 00000000:10:00.0     | 1500MHz   1600MHz    |
//	| N/A  40C   P0    104W / 350W  | 64MiB / 32768MiB     | 0%        Default    |
//
// A value that is too wide for its cell loses its unit ("65535W / 250").
func parseTable(in input) (gpu.Parsed, bool) {
	var t table
	for i, line := range text.Unwrap(in.lines) {
		if m := banner.FindStringSubmatch(line); m != nil {
			t.known, t.driver = true, text.String(m[1])
			continue
		}
		cells := text.Cells(line)
		if len(cells) > 0 && !strings.HasSuffix(strings.TrimSpace(line), "|") {
			cells = cells[:len(cells)-1] // cut there, maybe within a number
		}
		switch {
		case len(cells) > 0 && strings.HasPrefix(cells[0], "Processes:"):
			t.processes, t.known = readProcesses(in.lines[i:]), true
		case len(cells) > 0:
			t.row(cells)
		}
	}
	p := result(t.cards)
	p.Processes = t.processes
	return p, t.known || len(t.cards) > 0
}

// table is a table while it is being read.
type table struct {
	known     bool
	driver    string
	head      []string // the second line of the heading
	cards     []*card
	current   *card // whose second line is next
	processes []gpu.Process
}

func (t *table) row(cells []string) {
	m := nameCell.FindStringSubmatch(cells[0])
	switch {
	case slices.ContainsFunc(cells, func(cell string) bool { return strings.Contains(cell, "Memory-Usage") }):
		t.head = cells
	case m != nil && len(cells) > 1 && text.BusID(cells[1]) != "":
		t.current = &card{device: gpu.Device{
			Index: text.Natural(m[1]), Model: text.String(m[2]), BusID: text.BusID(cells[1]), DriverVersion: t.driver,
		}}
		t.cards = append(t.cards, t.current)
	case t.current != nil:
		t.measurements(cells)
		t.current = nil
	}
}

func (t *table) measurements(cells []string) {
	c := t.current
	first := na.ReplaceAllString(cells[0], "NA")
	for word := range strings.FieldsSeq(first) {
		if _, unit, ok := text.Number(word); ok && (unit == "C" || unit == "℃") {
			c.stats.Temperature = text.Celsius(word)
		}
	}
	if m := power.FindStringSubmatch(first); m != nil {
		c.stats.Power, c.stats.PowerLimit = text.Watts(m[1]), text.Positive(text.Watts(m[2]))
	}
	if used, total, ok := text.Pair(t.cell(cells, "Memory-Usage", 1)); ok {
		c.stats.MemoryUsed, c.device.MemoryTotal = text.Bytes(used, ""), text.Positive(text.Bytes(total, ""))
	}
	if words := strings.Fields(t.cell(cells, "GPU-Util", 2)); len(words) > 0 {
		c.stats.Utilization = text.Share(words[0])
	}
}

// cell returns the cell below the heading that has a word, or the one at other.
func (t *table) cell(cells []string, word string, other int) string {
	for i, head := range t.head {
		if slices.Contains(strings.Fields(head), word) {
			other = i
			break
		}
	}
	if other >= len(cells) {
		return ""
	}
	return cells[other]
}

// processRow is a process: card, pid, name, memory in MiB.
var processRow = text.Lazy(`^(\d{1,4})\s+(\d{1,10})\s+(\S.*?)\s+(\S+)$`)

func readProcesses(lines []string) []gpu.Process {
	var found []gpu.Process
	for _, line := range lines {
		cells := text.Cells(line)
		if len(cells) != 1 {
			continue
		}
		m := processRow.FindStringSubmatch(cells[0])
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
