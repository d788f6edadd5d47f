package kunlun

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

const power = `[\d.]+\s*W|N/A|NA|--?|ERR!|\[[^\]]*\]`

var (
	banner = text.Lazy(`XPU-SMI\s.*Driver Version:\s*([^\s|]+)`)
	// |   0  P800 OAM           N/A   | 00000000:03:00.0 N/A |                    0 |
	nameCell = text.Lazy(`^(\d{1,4})\s+(\S.*?)(?:\s+(N/A|On|Off|Enabled|Disabled))?$`)
	// | N/A   39C  N/A     91W / 400W |  31058MiB / 98304MiB |      0%      Default |
	powerPair   = text.Lazy(`(` + power + `)\s*/\s*(` + power + `)$`)
	celsiusWord = text.Lazy(`^-?\d+C$`)
	// |    0   N/A  N/A     41001      C   python                         3000MiB |
	processCell = text.Lazy(`^(\d{1,4})\s+\S+\s+\S+\s+(\d+)\s+\S+\s+(.*?)\s*(\d+\s*MiB|N/A)$`)
)

// table reads the table that looks like nvidia-smi's, with three lines a card:
// the third has the L3 cache and the SR-IOV mode.
type table struct {
	known     bool
	driver    string
	cards     []*card
	seen      map[string]bool // numbers and addresses of cards
	line2     bool            // the last card waits for its second line
	again     bool            // the lines are of a card that was there before
	processes []gpu.Process
}

func parseTable(lines []string) (gpu.Parsed, bool) {
	t := table{seen: map[string]bool{}}
	for _, line := range lines {
		t.line(line)
	}
	if !t.known && len(t.cards) == 0 {
		return gpu.Parsed{}, false
	}
	for _, c := range t.cards {
		c.device.DriverVersion = t.driver
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
	case len(cells) >= 3 && t.nameLine(cells):
	case len(cells) >= 2 && t.line2:
		t.powerLine(cells)
	case len(cells) >= 3 && cells[0] == "" && len(t.cards) > 0 && !t.again && strings.EqualFold(cells[2], "Enabled"):
		t.cards[len(t.cards)-1].stats.HealthMessage = physicalFunction
	}
}

// single reads the lines of one cell: the banner and the processes.
func (t *table) single(cell string) {
	if m := banner.FindStringSubmatch(cell); m != nil {
		t.driver, t.known = text.String(m[1]), true
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

// nameLine reads the first line of a card. A card that was read already, in the
// output of a loop, is not read again.
func (t *table) nameLine(cells []string) bool {
	m := nameCell.FindStringSubmatch(cells[0])
	bus, _, _ := strings.Cut(cells[1], " ")
	if m == nil || text.BusID(bus) == "" && (!text.Absent(bus) || m[3] == "") {
		return false
	}
	c := &card{number: number(m[1])}
	c.device.Model, c.device.BusID = m[2], text.BusID(bus)
	key := m[1] + " " + c.device.BusID
	t.again, t.line2 = t.seen[key], !t.seen[key]
	if !t.again {
		t.seen[key] = true
		t.cards = append(t.cards, c)
	}
	return true
}

func (t *table) powerLine(cells []string) {
	watts := powerPair.FindStringSubmatch(cells[0])
	used, total, pair := text.Pair(cells[1])
	if watts == nil || !pair {
		return
	}
	t.line2 = false
	c := t.cards[len(t.cards)-1]
	for word := range strings.FieldsSeq(cells[0]) {
		if celsiusWord.MatchString(word) {
			c.stats.Temperature = text.Celsius(word)
			break
		}
	}
	c.stats.Power, c.stats.PowerLimit = text.Watts(watts[1]), text.Watts(watts[2])
	c.stats.MemoryUsed, c.device.MemoryTotal = text.Bytes(used, ""), positive(text.Bytes(total, ""))
	if len(cells) > 2 {
		if util, _, _ := strings.Cut(cells[2], " "); strings.HasSuffix(util, "%") {
			c.stats.Utilization = text.Percent(util)
		}
	}
	if !strings.Contains(strings.Join(cells, " "), "ERR!") {
		return
	}
	if c.stats == (gpu.Stats{}) && c.device.MemoryTotal == nil { // nothing was read
		c.failed, c.code = "ERR! in place of the values", CodeTelemetry
		c.stats.Health, c.stats.HealthMessage = gpu.HealthFailed, c.failed
		return
	}
	c.stats.Health, c.stats.HealthMessage = gpu.HealthWarning, "ERR! in place of a value"
}
