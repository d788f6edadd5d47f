package enflame

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var (
	banner   = text.Lazy(`EFSMI:?\s+\S+\s+Driver Ver\s*:\s*(\S+)`)
	nameCell = text.Lazy(`^(\d{1,4})\s+(\S.*)$`)
	na       = text.Lazy(`(?i)\bN/A\b`)
	slash    = text.Lazy(`(\S+)\s*/\s*(\S+)`)
	level    = text.Lazy(`^(?:[A-Z][a-z]+|LP\d+|[A-Z]{2,}\d*)$`) // Sleep, Active, LP1
)

// parseTable reads the default output, whose rows have two lines, in a frame of
// bars or, on T10 and T20, of stars:
//
//	| 0      Enflame L300         | 40.2.8.3          | 00:2d:00.0  Enable        |
//	| 35℃    LP1      68W / 300W  | 147456MiB Disable | 0%          A547Q15985567 |
func parseTable(lines []string) (gpu.Parsed, bool) {
	var t table
	for _, line := range text.Unwrap(lines) {
		if m := banner.FindStringSubmatch(line); m != nil {
			t.known, t.driver = true, text.String(m[1])
			continue
		}
		line = strings.TrimSpace(line)
		if inner, ok := strings.CutPrefix(line, "*"); ok && strings.Contains(inner, "|") {
			line = "|" + inner
			if body, ok := strings.CutSuffix(line, "*"); ok {
				line = body + "|"
			}
		}
		cells := text.Cells(line)
		if len(cells) > 0 && !strings.HasSuffix(line, "|") {
			cells = cells[:len(cells)-1] // cut there, maybe within a number
		}
		if len(cells) > 0 {
			t.row(cells)
		}
	}
	return t.found.parsed(), t.known || len(t.found) > 0
}

// table is a table while it is being read.
type table struct {
	known   bool
	driver  string
	head    [2][]string // the two lines of the heading
	found   cards
	current *card // whose second line is next
}

func (t *table) row(cells []string) {
	switch {
	case strings.HasPrefix(cells[0], "DEV"):
		t.head[0] = cells
	case strings.HasPrefix(cells[0], "TEMP"):
		t.head[1] = cells
	case nameCell.MatchString(cells[0]) && t.card(cells):
	case t.current != nil:
		t.measurements(cells)
		t.current = nil
	}
}

// card reads the first line of a row; false when cells are none.
func (t *table) card(cells []string) bool {
	bus := t.below(0, cells, "BUS-ID", 2)
	if len(bus) == 0 || text.BusID(bus[0]) == "" {
		return false
	}
	m := nameCell.FindStringSubmatch(cells[0])
	n := text.Natural(m[1])
	if n == nil {
		return false
	}
	c, known := t.found.at(*n)
	if known {
		t.current = nil
		return true
	}
	c.device.Model, c.device.BusID, c.device.DriverVersion = text.String(m[2]), text.BusID(bus[0]), t.driver
	if firmware := t.below(0, cells, "VER", 1); len(firmware) > 0 {
		c.device.FirmwareVersion = text.String(firmware[0])
	}
	t.current = c
	return true
}

func (t *table) measurements(cells []string) {
	c := t.current
	c.power(cells[0])
	if words := t.below(1, cells, "Mem", 1); len(words) > 0 {
		c.device.MemoryTotal = text.Positive(text.Bytes(words[0], "MiB"))
	}
	usage := "DUsed"
	if len(t.below(1, cells, usage, -1)) == 0 {
		usage = "DEV-Util"
	}
	words := t.below(1, cells, usage, 2)
	if len(words) == 0 {
		return
	}
	c.stats.Utilization = text.Share(words[0])
	if last := text.String(words[len(words)-1]); len(words) > 1 {
		// The last column is the serial number, which older releases call UUID.
		if slices.ContainsFunc(t.head[1], func(cell string) bool { return strings.HasSuffix(cell, "UUID") }) {
			c.device.UUID = last
		} else {
			c.device.Serial = last
		}
	}
}

// below returns the words of the cell below the heading that has a word, or of
// the cell at other.
func (t *table) below(line int, cells []string, word string, other int) []string {
	for i, head := range t.head[line] {
		if slices.Contains(strings.Fields(head), word) {
			other = i
			break
		}
	}
	if other < 0 || other >= len(cells) {
		return nil
	}
	return strings.Fields(cells[other])
}

// power reads the cell of temperature, level, usage and cap. Each may be absent,
// and only newer releases have a slash: "39 C   Sleep    105W  300W". Where the
// level is absent, too, the units tell what stands where.
func (c *card) power(cell string) {
	cell = na.ReplaceAllString(cell, "NA")
	words := strings.Fields(cell)
	if len(words) == 0 {
		return
	}
	first := words[0]
	if len(words) > 1 && (words[1] == "C" || words[1] == "℃") {
		first += words[1]
	}
	if !strings.HasSuffix(first, "W") {
		c.stats.Temperature = text.Celsius(first)
	}
	if m := slash.FindStringSubmatch(cell); m != nil {
		c.watts(m[1:])
		return
	}
	if i := slices.IndexFunc(words, isLevel); i >= 0 {
		c.watts(words[i+1:])
		return
	}
	words = slices.DeleteFunc(words, func(w string) bool { return !strings.HasSuffix(w, "W") })
	if len(words) == 2 {
		c.watts(words)
	}
}

func isLevel(word string) bool { return level.MatchString(word) && !text.Absent(word) }

// watts takes in usage and cap, as far as they are there.
func (c *card) watts(words []string) {
	if len(words) > 0 {
		c.stats.Power = text.Watts(words[0])
	}
	if len(words) > 1 {
		c.stats.PowerLimit = text.Positive(text.Watts(words[1]))
	}
}
