package smi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var (
	banner        = text.Lazy(`\bNVIDIA-SMI\s+\S`)
	driverVersion = text.Lazy(`\b(?:Driver|KMD) Version:\s*(\d[\d.]*)`)
	firstLine     = text.Lazy(`^(\d{1,3})\.?\s+(\S.*)$`)
	// An integrated GPU (Jetson) has no bus id.
	busCell     = text.Lazy(`(?i)^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|N/A)(?:\s|$)`)
	listLine    = text.Lazy(`^\s*GPU\s+(\d{1,3}):\s+(.+?)\s+\(UUID:\s*([^)]*)\)`)
	listMIG     = text.Lazy(`^\s+MIG\s+(\S+)\s+Device\s+(\d+):\s+\(UUID:\s*(\S+?)\)`)
	state       = text.Lazy(`\sP\d{1,2}\s`) // performance
	resetNote   = text.Lazy(`(?i)\bGPU requires reset\b`)
	noProcesses = text.Lazy(`(?i)No running (?:\w+ )?processes found`)
)

// modes are what the persistence (or driver model) column may say.
var modes = []string{"On", "Off", "N/A", "ERR!", "TCC", "WDDM", "WDM", "MCDM", "Enabled", "Disabled"}

// table is where reading the default table has come to.
type table struct {
	*document
	current *card  // whose second and third line follow
	row     int    // which line of that card was read last
	listed  *int   // the card whose MIG devices follow in -L
	driver  string // of the banner
	known   bool
}

// readTable reads the default table of all generations and the lines of -L.
// Columns are found by the shape of their cells: the widths changed with drivers
// 340, 450, 535 and 545, and pasted tables have others again.
func (d *document) readTable() bool {
	t := table{document: d}
	for i, line := range text.Unwrap(d.lines) {
		cells := text.Cells(line)
		switch {
		case t.listRow(i, line):
		case len(cells) > 0:
			t.cells(i, cells)
		case resetNote.MatchString(line):
			t.needsReset()
		}
	}
	for _, c := range d.cards {
		c.device.DriverVersion = t.driver
	}
	return t.known
}

// cells reads one row of a table.
func (t *table) cells(line int, cells []string) {
	whole := strings.Join(cells, " ")
	switch m := driverVersion.FindStringSubmatch(whole); {
	case banner.MatchString(whole):
		t.known, t.current = true, nil
		if m != nil {
			t.driver = m[1]
		}
	case t.migRow(cells), t.first(line, cells):
	case t.current != nil && len(cells) >= 2 && t.row == 1 && t.second(cells):
	case t.current != nil && len(cells) >= 2 && t.row == 2 && t.third(cells):
	case len(cells) == 1:
		t.current = nil
		t.wide(cells[0])
	}
}

// first reads the line with the card's number, name and bus id.
func (t *table) first(line int, cells []string) bool {
	if len(cells) < 2 {
		return false
	}
	name, at := firstLine.FindStringSubmatch(cells[0]), busCell.FindStringSubmatch(cells[1])
	if name == nil || at == nil {
		return false
	}
	words := strings.Fields(name[2])
	if last := words[len(words)-1]; len(words) > 1 && slices.Contains(modes, last) {
		words = words[:len(words)-1]
	}
	c := t.card(*text.Int(name[1]), line)
	*c = card{line: line, device: gpu.Device{Index: c.device.Index, UUID: c.device.UUID}} // a newer sample
	c.set(fieldModel, strings.Join(words, " "))
	c.set(fieldBusID, at[1])
	if len(cells) > 2 { // "On" here means MIG; a count is of uncorrectable errors; the table of vGPUs has the share
		switch {
		case text.Natural(cells[2]) != nil:
			c.set(fieldECC, cells[2])
		case strings.HasSuffix(cells[2], "%"):
			c.set(fieldUtilization, cells[2])
		}
	}
	t.known, t.current, t.row = true, c, 1
	return true
}

// second reads fan, temperature, power, memory and utilisation. Every generation
// has usage and limit of the power in it, or an error in their place; a line
// without is of another table.
func (t *table) second(cells []string) bool {
	usage, limit, ok := text.Pair(cells[0])
	if !ok {
		usage, limit = cells[0], ""
		ok = state.MatchString(usage)
	}
	words := strings.Fields(usage)
	if !ok || len(words) < 3 { // fan, temperature, perhaps the state, usage
		t.current = nil
		return false
	}
	c := t.current
	t.row = 2
	c.set(fieldTemperature, words[1])
	if at := state.FindStringIndex(usage); at != nil {
		c.set(fieldPower, usage[at[1]:])
	} else {
		c.set(fieldPower, words[len(words)-1])
	}
	c.set(fieldPowerLimit, limit)
	if used, total, ok := text.Pair(cells[1]); ok {
		if words := strings.Fields(used); len(words) > 0 { // drivers before 300 put a percentage first
			c.set(fieldMemoryUsed, words[len(words)-1])
			c.set(fieldMemoryTotal, total)
		}
	}
	if len(cells) > 2 {
		if words := strings.Fields(cells[2]); len(words) > 0 {
			c.set(fieldUtilization, words[0])
		}
	}
	return true
}

// third reads the MIG mode, the only cell of its line.
func (t *table) third(cells []string) bool {
	last := len(cells) - 1
	if slices.ContainsFunc(cells[:last], func(s string) bool { return s != "" }) || strings.Contains(cells[last], " ") {
		return false
	}
	t.current.set(fieldMIGMode, cells[last])
	t.current = nil
	return true
}

// wide reads a row of one cell: a process, or a heading.
func (t *table) wide(cell string) {
	switch {
	case strings.Contains(cell, "Processes:"), strings.Contains(cell, "Compute processes:"),
		noProcesses.MatchString(cell), strings.HasPrefix(cell, "MIG devices:"):
		t.known = true
	case strings.HasPrefix(cell, "No MIG devices found"):
		t.known = true
		t.mig()
	default:
		if p, ok := processCell(cell); ok {
			t.parsed.Processes = append(t.parsed.Processes, p)
			t.known = true
		}
	}
}

// migRow reads "GPU GI CI Dev | memory | SM ECC | engines".
func (t *table) migRow(cells []string) bool {
	ids := strings.Fields(cells[0])
	if len(cells) < 3 || len(ids) != 4 {
		return false
	}
	var numbers [4]*int
	for i, id := range ids {
		if numbers[i] = text.Natural(id); numbers[i] == nil {
			return false
		}
	}
	m := gpu.MIGDevice{GPU: numbers[0], GI: numbers[1], CI: numbers[2], MIGIndex: numbers[3]}
	if used, total, ok := text.Pair(cells[1]); ok {
		m.MemoryUsed, m.MemoryTotal = text.MiB(used), text.MiB(total)
	}
	if words := strings.Fields(cells[2]); len(words) > 0 {
		m.SM = text.Natural(words[0])
	}
	t.addMIG(m)
	t.current, t.known = nil, true
	return true
}

// addMIG adds a MIG device to those of the output.
func (d *document) addMIG(m gpu.MIGDevice) {
	d.mig().Devices = JoinMIG(d.mig().Devices, m)
}

// JoinMIG adds a MIG device to a list, or completes the one of that number: -L
// knows uuid and profile, the table and "-q" know the instances and the memory.
func JoinMIG(list []gpu.MIGDevice, m gpu.MIGDevice) []gpu.MIGDevice {
	at := slices.IndexFunc(list, func(have gpu.MIGDevice) bool {
		return have.GPU != nil && m.GPU != nil && *have.GPU == *m.GPU &&
			have.MIGIndex != nil && m.MIGIndex != nil && *have.MIGIndex == *m.MIGIndex
	})
	if at < 0 {
		return append(list, m)
	}
	have := &list[at]
	have.GI, have.CI, have.SM = cmp.Or(m.GI, have.GI), cmp.Or(m.CI, have.CI), cmp.Or(m.SM, have.SM)
	have.UUID, have.Profile = cmp.Or(m.UUID, have.UUID), cmp.Or(m.Profile, have.Profile)
	have.MemoryTotal, have.MemoryUsed = cmp.Or(m.MemoryTotal, have.MemoryTotal), cmp.Or(m.MemoryUsed, have.MemoryUsed)
	return list
}

// listRow reads a line of -L. A card with MIG devices has the mode on; one
// without may have it on as well.
func (t *table) listRow(line int, s string) bool {
	if m := listLine.FindStringSubmatch(s); m != nil {
		c := t.card(*text.Int(m[1]), line)
		if c.device.Model == "" || strings.HasSuffix(c.device.Model, "...") {
			c.set(fieldModel, m[2])
		}
		c.set(fieldUUID, m[3])
		t.listed, t.known = c.device.Index, true
		return true
	}
	m := listMIG.FindStringSubmatch(s)
	if m == nil || t.listed == nil {
		return false
	}
	t.addMIG(gpu.MIGDevice{GPU: t.listed, MIGIndex: text.Natural(m[2]), Profile: m[1], UUID: m[3]})
	t.card(*t.listed, line).set(fieldMIGMode, "Enabled")
	return true
}

// needsReset gives a remark below the table to the card it can only mean.
func (t *table) needsReset() {
	var suspects []*card
	for _, c := range t.cards {
		if len(c.broken) > 0 || len(t.cards) == 1 {
			suspects = append(suspects, c)
		}
	}
	if len(suspects) == 1 {
		suspects[0].fault = codeReset
	}
}
