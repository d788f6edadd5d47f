package ascend

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var (
	banner     = text.Lazy(`npu-smi\s+\S+\s+Version:\s*([^\s|]+)`)
	healthWord = text.Lazy(`^[A-Za-z]+$`)
)

// chip is the two lines that the table has per chip. Either may be missing: the
// tool prints neither line of a chip when a lookup for it fails.
type chip struct {
	card, chip, phy   *int
	name, health, bus string
	values            map[string]value // of both lines
	top, bottom       bool
	torn              bool // one line is missing, and not because the text was cut there
}

// table reads "npu-smi info". The layouts of the generations differ; header
// words decide:
//
//	| NPU   Name    | Health | Power(W) Temp(C) Hugepages-Usage(page) |
//	| Chip  Phy-ID  | Bus-Id | AICore(%) Memory-Usage(MB) HBM-Usage(MB) |   910C; "Chip Device" on 310, "Chip" on 910A/B
//
//	| NPU ID | Name | Health | Power(W) …                              |   950: the id has a column of its own,
//	|        |      | Bus-Id | NPU Util(%) Memory-Usage(MB) …          |   and there is no chip number
type table struct {
	header      bool
	version     string
	top, bottom []label
	phyID       bool // the second number of the bottom line is the physical id
	idColumn    bool // layout of the 950
	chips       []*chip
	open        bool // the last chip waits for its bottom line
	elided      bool // lines were left out before this one
	inProcesses bool
	processes   processTable
}

func parseTable(lines []string, sc scope) (gpu.Parsed, bool) {
	t := table{elided: true}
	end := lastLine(lines)
	for i, line := range lines {
		t.line(line, i == end && !closed(line))
	}
	if len(t.chips) == 0 && len(t.processes.rows) == 0 {
		if p, failed := parseError(lines, sc); failed || !t.header {
			return p, failed && t.header
		}
	}
	return t.parsed(), true
}

// lastLine returns the position of the last line that is not blank: there a
// text may be cut.
func lastLine(lines []string) int {
	for i, line := range slices.Backward(lines) {
		if strings.TrimSpace(line) != "" {
			return i
		}
	}
	return -1
}

// closed reports whether a row ends with a bar, as whole ones do.
func closed(line string) bool {
	line = strings.TrimSpace(line)
	last, _ := utf8.DecodeLastRuneInString(line)
	return strings.ContainsRune("|│┃║¦", last)
}

func (t *table) line(line string, cut bool) {
	if m := banner.FindStringSubmatch(line); m != nil {
		t.version = m[1]
		return
	}
	cells := text.Cells(line)
	switch {
	case cells == nil && (text.Rule(line) || strings.TrimSpace(line) == ""):
	case cells == nil:
		t.open, t.elided = false, true
	case t.heading(cells):
	case t.inProcesses:
		t.processes.row(cells)
	case t.topLine(cells, cut), t.bottomLine(cells, cut):
		t.elided = false
	}
}

// heading takes in a header line.
func (t *table) heading(cells []string) bool {
	switch {
	case t.processes.heading(cells):
		t.inProcesses = true
	case len(cells) >= 3 && strings.HasPrefix(cells[0], "NPU"):
		t.header, t.inProcesses = true, false
		t.idColumn = cells[1] == "Name"
		t.top = labels(strings.Join(cells[t.first():], "  "))
	case len(cells) >= 3 && cells[t.first()-1] == "Bus-Id":
		t.phyID = strings.Contains(cells[0], "Phy-ID")
		t.bottom = labels(strings.Join(cells[t.first():], "  "))
	default:
		return false
	}
	return true
}

// first is the number of cells before those with values.
func (t *table) first() int {
	if t.idColumn {
		return 3
	}
	return 2
}

// values reads the cells with values; the last word of a cut line is dropped,
// it may be half a number.
func (t *table) values(columns []label, cells []string, cut bool) map[string]value {
	w := words(strings.Join(cells[t.first():], "  "))
	if cut && len(w) > 0 {
		w = w[:len(w)-1]
	}
	return assign(columns, w)
}

func (t *table) topLine(cells []string, cut bool) bool {
	if len(cells) <= t.first() {
		return false
	}
	number, name, _ := strings.Cut(cells[0], " ")
	if t.idColumn {
		name = cells[1]
	}
	card, health := id(number), cells[t.first()-1]
	known, _ := healthOf(health)
	sure := known != "" || t.header && strings.TrimSpace(name) != ""
	if card == nil || !sure || !healthWord.MatchString(health) ||
		text.Absent(health) && (t.open || t.lower(cells)) { // "NA" for a bus id: the bottom line
		return false
	}
	columns := t.top
	if columns == nil {
		columns = labels("Power(W) Temp(C) Hugepages-Usage(page)")
	}
	t.tear()
	c := &chip{
		card: card, name: text.String(name), health: text.String(health),
		values: t.values(columns, cells, cut), top: true,
	}
	if t.idColumn {
		c.chip = new(0)
	}
	t.chips, t.open = append(t.chips, c), true
	return true
}

// tear notes that the last chip gets no bottom line although the text goes on.
func (t *table) tear() {
	if t.open {
		t.chips[len(t.chips)-1].torn = true
	}
}

func (t *table) bottomLine(cells []string, cut bool) bool {
	if len(cells) <= t.first() {
		return false
	}
	numbers, bus := strings.Fields(cells[0]), cells[t.first()-1]
	isBus := text.BusID(bus) != "" || noBus(bus) && (t.open || t.lower(cells))
	if !isBus || t.idColumn == (len(numbers) > 0) {
		return false
	}
	if !t.open {
		t.chips = append(t.chips, &chip{torn: !t.elided, values: map[string]value{}})
	}
	c := t.chips[len(t.chips)-1]
	c.bus, c.bottom, t.open = bus, true, false
	if !t.idColumn {
		c.chip = id(numbers[0])
		if t.phyID && len(numbers) == 2 {
			c.phy = id(numbers[1])
		}
	}
	columns := t.bottom
	if columns == nil {
		columns = labels("AICore(%) Memory-Usage(MB) HBM-Usage(MB)")
		if len(words(cells[t.first()])) < len(columns) {
			columns = columns[:2]
		}
	}
	maps.Copy(c.values, t.values(columns, cells, cut))
	return true
}

// lower reports whether the values are those of a bottom line, whose second is an
// amount of memory; a top line's is the temperature.
func (t *table) lower(cells []string) bool {
	w := words(strings.Join(cells[t.first():], "  "))
	return len(w) > 1 && strings.Contains(w[1], "/")
}

// noBus reports whether the cell is what stands for an unknown bus id: a SoC's
// "NA", or the zeroed one of a chip that was not asked.
func noBus(cell string) bool { return text.Absent(cell) || cell == "0000:00:00.0" }

func (t *table) parsed() gpu.Parsed {
	var p gpu.Parsed
	var kept []*chip
	for _, c := range t.chips {
		if len(kept) == maxDevices {
			break
		}
		if repeated(kept, c) {
			continue
		}
		kept = append(kept, c)
		d := device(len(p.GPUs))
		d.Card, d.Chip, d.Minor = c.card, c.chip, c.phy
		d.Model, d.BusID, d.DriverVersion = c.name, text.BusID(c.bus), t.version
		s, failures := c.stats(d)
		d.MemoryTotal = s.MemoryTotal
		if twin := twinOf(p.GPUs, d); twin != nil {
			failures = append(failures, failure(d, CodeDuplicate, duplicate(*twin, d)))
		}
		p.GPUs = append(p.GPUs, d)
		p.Failures = append(p.Failures, failures...)
		if measured(s) {
			p.Stats = append(p.Stats, s)
		}
	}
	p.Processes = t.processes.of(p.GPUs)
	return p
}

// repeated reports whether the table holds c already: output of a loop.
func repeated(chips []*chip, c *chip) bool {
	for _, o := range chips {
		if c.top && c.bottom && o.top && o.bottom && c.bus == o.bus &&
			equal(c.card, o.card) && equal(c.chip, o.chip) {
			return true
		}
	}
	return false
}

// vnpu matches the names of virtual NPUs, "310Pvir04".
var vnpu = text.Lazy(`vir\d`)

// stats are the measurements of a chip, and what is wrong with it.
func (c *chip) stats(d gpu.Device) (gpu.Stats, []gpu.Failure) {
	s := gpu.Stats{Index: d.Index}
	s.Health, s.HealthMessage = healthOf(c.health)
	var failures []gpu.Failure
	if f, sick := sickness(d, c.health, ""); sick {
		failures = append(failures, f)
	}
	if c.torn {
		failures = append(failures, failure(d, CodeIncomplete, "npu-smi printed only one of the chip's two lines"))
	}
	if c.hollow() {
		if s.Health == gpu.HealthOK {
			s.Health, s.HealthMessage = "", "printed as "+c.health+" without memory and temperature"
			failures = append(failures, failure(d, CodeNoReading,
				"npu-smi printed "+c.health+" but memory 0 and temperature 0: nothing could be read from the chip"))
		}
		return s, failures
	}
	s.Power = text.Watts(c.values["power"].word)
	s.Temperature = text.Celsius(c.values["temp"].word)
	if !vnpu.MatchString(c.name) { // of a virtual NPU the tool prints a constant 0
		s.Utilization = text.Percent(cmp.Or(c.values["npu util"].word, c.values["aicore"].word))
	}
	s.MemoryUsed, s.MemoryTotal = c.memory()
	return s, failures
}

// memory returns the HBM where there is a column for it, else the DDR: on cards
// with HBM the other is the control CPU's, or a constant 0.
func (c *chip) memory() (used, total *int64) {
	v, ok := c.values["hbm-usage"]
	if !ok {
		v = c.values["memory-usage"]
	}
	u, t, _ := text.Pair(v.word)
	total = text.Bytes(t, v.unit)
	if total == nil {
		return text.Bytes(u, v.unit), nil
	}
	if *total == 0 {
		return nil, nil
	}
	return text.Bytes(u, v.unit), total
}

// hollow reports whether the line is what npu-smi prints when it could read
// nothing: the zeroed result, whose health 0 means OK (npu_info.c ignores the
// failures of the queries). A real chip is neither at 0 °C nor without memory.
func (c *chip) hollow() bool {
	v, ok := c.values["hbm-usage"]
	if !ok {
		v = c.values["memory-usage"]
	}
	_, total, pair := text.Pair(v.word)
	t, m := text.Celsius(c.values["temp"].word), text.Bytes(total, v.unit)
	return pair && t != nil && *t == 0 && m != nil && *m == 0
}
