package metax

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var (
	driver     = text.Lazy(`Kernel Mode Driver Version\s*:\s*(\S+)`)
	nameCell   = text.Lazy(`^(\d{1,4})\s+(\S.*)$`)
	persistent = text.Lazy(`\s+(?:On|Off|N/?A)$`)
	na         = text.Lazy(`(?i)\bN/A\b`)
	powerPair  = text.Lazy(`(\S+)\s*/\s*(\S+)`)
)

// parseTable reads the default output. Rows have two lines, and the bus id tells
// the layouts apart: before it stand one cell (number, name), or since 2.2.9 two
// (board and name; number).
//
//	| 0       MetaX N260             Off | 0000:01:00.0        | 0%            Native |
//	| 37C     29W / 225W              P0 | 666/65536 MiB       | Available            |
//
//	| 0     MetaX C500 | 0           Off | 0000:37:00.0        | 0%           Enabled |
//	| 61W / 350W       | 38C          P9 | 15155/65536 MiB     | Available            |
func parseTable(_ []byte, lines []string) (gpu.Parsed, bool) {
	var t table
	for i, line := range text.Unwrap(lines) {
		if m := driver.FindStringSubmatch(line); m != nil {
			t.driver, t.known = text.String(m[1]), true
			continue
		}
		cells := text.Cells(line)
		if len(cells) > 0 && !strings.HasSuffix(strings.TrimSpace(line), "|") {
			cells = cells[:len(cells)-1] // cut there, maybe within a number
		}
		switch {
		case len(cells) == 1 && isProcessTitle(cells[0]):
			t.processes = readProcesses(lines[i:])
		case len(cells) == 1 && cells[0] == "Sliced GPU":
			t.known, t.current = true, nil // its rows have no bus id
		case len(cells) > 0:
			t.row(cells)
		}
	}
	p := t.found.parsed()
	p.Processes = t.processes
	return p, t.known || len(t.found) > 0
}

// table is a table while it is being read.
type table struct {
	known     bool
	driver    string
	head      [2][]string // the two lines of the heading
	found     cards
	current   *card // whose second line is next
	bus       int   // where its bus id stands
	processes []gpu.Process
}

func (t *table) row(cells []string) {
	bus := slices.IndexFunc(cells, func(cell string) bool { return text.BusID(cell) != "" })
	switch {
	case slices.ContainsFunc(cells, func(cell string) bool { return strings.EqualFold(cell, "Bus-id") }):
		t.head[0] = cells
	case slices.Contains(cells, "Memory-Usage"):
		t.head[1] = cells
	case bus == 1 || bus == 2:
		t.card(cells, bus)
	case t.current != nil:
		t.measurements(cells)
		t.current = nil
	}
}

func (t *table) card(cells []string, bus int) {
	t.current = nil
	m := nameCell.FindStringSubmatch(cells[0])
	if m == nil {
		return
	}
	index, name := text.Natural(m[1]), m[2]
	if bus == 1 {
		name = persistent.ReplaceAllString(name, "")
	} else {
		first, _, _ := strings.Cut(cells[1], " ")
		index = text.Natural(first)
	}
	if index == nil || slices.ContainsFunc(t.found, func(c *card) bool { return *c.device.Index == *index }) {
		return
	}
	c := t.found.at(*index)
	c.device.Model, c.device.BusID, c.device.DriverVersion = text.String(name), text.BusID(cells[bus]), t.driver
	if bus == 2 {
		c.device.Card = text.Natural(m[1])
	}
	if words := strings.Fields(at(cells, column(t.head[0], "GPU-Util", bus+1))); len(words) > 0 {
		c.stats.Utilization = text.Share(words[0])
	}
	t.current, t.bus = c, bus
}

// measurements reads the second line. Power and temperature change places
// between layouts; their units tell them apart.
func (t *table) measurements(cells []string) {
	c := t.current
	memory := column(t.head[1], "Memory-Usage", t.bus)
	if used, total, ok := text.Pair(at(cells, memory)); ok {
		c.stats.MemoryUsed, c.device.MemoryTotal = text.MiB(used), text.Positive(text.MiB(total))
	}
	c.state(at(cells, column(t.head[1], "GPU-State", t.bus+1)))
	for _, cell := range cells[:min(memory, len(cells))] {
		cell = na.ReplaceAllString(cell, "NA")
		for word := range strings.FieldsSeq(cell) {
			switch _, unit, _ := text.Number(word); unit {
			case "C", "℃":
				c.stats.Temperature = text.Celsius(word)
			case "W", "mW":
				if c.stats.Power == nil && !strings.Contains(cell, "/") {
					c.stats.Power = text.Watts(word)
				}
			}
		}
		if m := powerPair.FindStringSubmatch(cell); m != nil {
			c.stats.Power, c.stats.PowerLimit = text.Watts(m[1]), text.Positive(text.Watts(m[2]))
		}
	}
}

// column returns the cell of the heading that has a word, or other.
func column(head []string, word string, other int) int {
	for i, cell := range head {
		if slices.Contains(strings.Fields(cell), word) {
			return i
		}
	}
	return other
}

func at(cells []string, i int) string {
	if i < 0 || i >= len(cells) {
		return ""
	}
	return cells[i]
}
