package kunlun

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// oldTable reads the tables of the first two generations (K100 to R480):
//
//	| DevID |   PCI Addr   | Model |        SN        |    INODE   | UseRate |     L3     |     Memory      |
//	|     0 | 0000:03:00.0 | R200  | 02K00X0000V00001 | /dev/xpu0  |    12 % | 63 / 63 MB | 4146 / 13568 MB |
//
// Which columns there are varies; the header says. The tables of videos and
// processes below have a DevID, too, but no PCI address.
type oldTable struct {
	driver    string
	header    []string
	known     bool
	cards     []*card
	processes []gpu.Process
}

func parseOldTable(lines []string) (gpu.Parsed, bool) {
	var t oldTable
	for _, line := range lines {
		t.line(line)
	}
	if !t.known {
		return gpu.Parsed{}, false
	}
	for _, c := range t.cards {
		c.device.DriverVersion = t.driver
	}
	p := result(t.cards)
	p.Processes = t.processes
	return p, true
}

func (t *oldTable) line(line string) {
	cells := text.Cells(line)
	if cells == nil {
		if key, value, ok := text.KeyValue(line); ok && key == "Driver Version" {
			t.driver = text.String(value)
		}
		return
	}
	if cells[0] == "DevID" {
		t.header = cells
		for i := range t.header {
			t.header[i] = column(t.header[i])
		}
		t.known = t.known || t.has("pci addr")
		return
	}
	if !strings.HasSuffix(strings.TrimSpace(line), "|") {
		cells = cells[:len(cells)-1] // the text is cut here
	}
	if len(cells) == 0 {
		return
	}
	dev := number(cells[0])
	if t.header == nil || dev == nil {
		return
	}
	values := map[string]string{}
	for i, cell := range cells[:min(len(cells), len(t.header))] {
		values[t.header[i]] = cell
	}
	switch {
	case t.has("pci addr"):
		t.device(*dev, values)
	case t.has("pid"):
		t.process(*dev, values)
	}
}

// column is a heading in lower case without its unit: "Power(W)" is "power".
func column(heading string) string {
	name, _, _ := strings.Cut(strings.ToLower(heading), "(")
	return strings.TrimSpace(name)
}

func (t *oldTable) has(column string) bool { return slices.Contains(t.header, column) }

func (t *oldTable) device(dev int, v map[string]string) {
	c := &card{number: &dev}
	d, s := &c.device, &c.stats
	d.BusID, d.Model, d.Serial = text.BusID(v["pci addr"]), text.String(v["model"]), text.String(v["sn"])
	d.FirmwareVersion = text.String(v["firmware version"])
	if node, ok := strings.CutPrefix(v["inode"], "/dev/xpu"); ok {
		d.Minor = number(node)
	}
	s.Utilization = text.Percent(v["userate"])
	s.MemoryUsed, d.MemoryTotal = megabytes(v["memory"])
	s.Power, s.Temperature = watts(v["power"]), text.Celsius(v["temp"])
	if strings.HasSuffix(d.Model, "-PF") {
		s.HealthMessage = physicalFunction
	}
	// "N" is the normal state. It is not taken for health: it says no more than
	// that the driver has not given the device up.
	if state := v["state"]; state == "E" || strings.EqualFold(state, "error") {
		s.Health, s.HealthMessage, c.failed = gpu.HealthFailed, "state "+state, "state "+state
		c.code = CodeState
	}
	t.cards = append(t.cards, c)
}

func (t *oldTable) process(dev int, v map[string]string) {
	pid := number(v["pid"])
	if pid == nil {
		return
	}
	t.processes = append(t.processes, gpu.Process{
		PID: *pid, Index: &dev, Name: text.String(v["command"]), MemoryUsed: text.Bytes(v["memory"], ""),
	})
}

// megabytes splits "4146 / 13568 MB": the unit is that of both.
func megabytes(cell string) (used, total *int64) {
	u, t, ok := text.Pair(cell)
	if _, unit, unitOK := text.Number(t); !ok || !unitOK || !strings.HasPrefix(strings.ToUpper(unit), "M") {
		return nil, nil
	}
	return text.MiB(u), positive(text.Bytes(t, ""))
}
