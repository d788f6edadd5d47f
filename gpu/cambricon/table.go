package cambricon

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

const (
	word  = `(?:\[[^\]]*\]|\S+)`
	watts = `(?:[\d.]+\s*W|N/A|NA|--?|ERR!|\[[^\]]*\])`
)

var (
	// | 0     /   MLU370-X8    v1.1.6 |         0000:13:00.0 | 0%                  0 |
	// The number of the virtual function may have no column, the firmware no value.
	nameCell = text.Lazy(`^(\d{1,4})\s+(?:(/|N/A|\d+)\s+)?([A-Za-z]\S*(?: \S+)*?)(?:\s+(v\d\S*|N/A|/|-))?$`)
	// |  0%   28C        107 W/ 250 W |     0 MiB/ 20638 MiB | FULL          Default |
	// The fan is "7", "/" or absent on cards without one.
	powerCell = text.Lazy(`^(?:` + word + `\s+)?(` + word + `)\s+(` + watts + `\s*/\s*` + watts + `)$`)

	banner      = text.Lazy(`CNMON\s+v\S+\s+Driver\s+(v[^\s|]+)`)
	processCell = text.Lazy(`^(\d{1,4})\s+\S+\s+(\d+)\s+(.*?)\s*(\d+ MiB|N/A)$`)
)

// table reads what "cnmon" prints: two lines a card, then the processes. In
// version 4 the first line has "Inited Driver" instead of the bus id, and the
// second ends with virtual memory.
type table struct {
	driver    string
	cards     []*card
	open      bool // the last card waits for its second line
	skipping  bool // a virtual function's two lines
	known     bool
	processes []gpu.Process
}

func parseTable(lines []string, _ *int) (gpu.Parsed, bool) {
	var t table
	for _, line := range lines {
		t.line(line)
	}
	if !t.known && len(t.cards) == 0 {
		return gpu.Parsed{}, false
	}
	for _, c := range t.cards {
		if c.device.DriverVersion == "" {
			c.device.DriverVersion = t.driver
		}
	}
	p := result(t.cards)
	p.Processes = t.processes
	return p, true
}

func (t *table) line(line string) {
	cells := text.Cells(line)
	switch {
	case len(cells) == 1:
		t.single(cells[0])
	case len(cells) == 3 && strings.HasPrefix(cells[0], "Card "):
		t.known = true
	case len(cells) == 3 && !t.powerLine(cells):
		t.nameLine(cells)
	}
}

// single reads the lines of one cell: the banner and the processes.
func (t *table) single(cell string) {
	if m := banner.FindStringSubmatch(cell); m != nil {
		t.driver, t.known = m[1], true
	}
	m := processCell.FindStringSubmatch(cell)
	if m == nil {
		return
	}
	if pid := number(m[2]); pid != nil {
		t.processes = append(t.processes, gpu.Process{
			PID: *pid, Name: text.String(m[3]), Index: number(m[1]), MemoryUsed: text.Bytes(m[4], ""),
		})
	}
}

func (t *table) nameLine(cells []string) {
	m := nameCell.FindStringSubmatch(cells[0])
	if m == nil || m[4] == "" && text.BusID(cells[1]) == "" {
		return
	}
	if t.skipping = number(m[2]) != nil; t.skipping { // a virtual function, not a card
		t.open = false
		return
	}
	c := &card{number: number(m[1])}
	c.device.Model, c.device.FirmwareVersion = m[3], text.String(strings.Trim(m[4], "/"))
	if bus := text.BusID(cells[1]); bus != "" {
		c.device.BusID = bus
	} else if f := strings.Fields(cells[1]); len(f) == 2 && strings.HasPrefix(f[1], "v") {
		c.device.DriverVersion = f[1]
	}
	if f := strings.Fields(cells[2]); len(f) > 0 && strings.HasSuffix(f[0], "%") {
		c.stats.Utilization = text.Percent(f[0])
	}
	t.cards, t.open = append(t.cards, c), true
}

func (t *table) powerLine(cells []string) bool {
	m := powerCell.FindStringSubmatch(cells[0])
	used, total, pair := text.Pair(cells[1])
	if m == nil || !pair {
		return false
	}
	if t.skipping {
		return true
	}
	if !t.open {
		t.cards = append(t.cards, &card{})
	}
	c := t.cards[len(t.cards)-1]
	t.open = false
	if strings.HasSuffix(m[1], "C") {
		c.stats.Temperature = text.Celsius(m[1])
	}
	usage, limit, _ := text.Pair(m[2])
	c.stats.Power, c.stats.PowerLimit = text.Watts(usage), text.Watts(limit)
	c.stats.MemoryUsed, c.device.MemoryTotal = text.Bytes(used, ""), positive(text.Bytes(total, ""))
	return true
}

// positive drops a total of 0, which no card has.
func positive(n *int64) *int64 {
	if n != nil && *n == 0 {
		return nil
	}
	return n
}

// parseTopology reads "cnmon topo -m", also one that is drawn as a table.
func parseTopology(lines []string, _ *int) (gpu.Parsed, bool) {
	open := make([]string, len(lines))
	for i, line := range lines {
		open[i] = strings.ReplaceAll(line, "|", " ")
	}
	t := gpu.ParseMatrix(gpu.Cambricon, open)
	return gpu.Parsed{Topology: t}, t != nil
}
