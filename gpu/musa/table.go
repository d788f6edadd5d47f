package musa

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var (
	banner  = text.Lazy(`(?i)mthreads-gmi\s*:\s*\S+\s+Driver Version\s*:\s*(\S+)`)
	cardRow = text.Lazy(`^\s*(\d{1,4})\s+(\S.*?)\s*\|`)
	memory  = text.Lazy(`(\S+?)\((\S+?)\)`) // 2MiB(16384MiB)
)

// parseTable reads the table of "mthreads-gmi" and "mthreads-gmi -cf", whose
// rows have three lines:
//
//	0    MTT S80        |00000000:04:00.0    |0%    2MiB(16384MiB)
//	     Physical       |4x(16x)             |49C   YES
//	                                         |      N/A
//
// It is as wide as the release likes. A web page may have collapsed its blanks:
// only the bars count.
func parseTable(_ []byte, lines []string) (gpu.Parsed, bool) {
	t := table{utilization: 2, temperature: 2}
	for i, line := range lines {
		if isProcessHeader(line) {
			t.processes, _ = readProcesses(lines[i:])
			break
		}
		t.line(line)
	}
	p := result(t.cards)
	p.Processes = t.processes
	return p, len(p.GPUs) > 0 || t.banner
}

// table is a table while it is being read.
type table struct {
	banner      bool
	driver      string
	utilization int // the cell that the header names so
	temperature int
	cards       []*card
	current     *card // that a line without a number continues
	processes   []gpu.Process
}

func (t *table) line(line string) {
	if m := banner.FindStringSubmatch(line); m != nil {
		t.banner, t.driver = true, text.String(m[1])
		return
	}
	if text.Rule(line) {
		t.current = nil
		return
	}
	cells := text.Cells(line)
	if strings.HasPrefix(strings.TrimSpace(line), "|") { // a first cell that is blank
		cells = append([]string{""}, cells...)
	}
	switch {
	case len(cells) < 2:
	case t.header(cells):
	case cardRow.MatchString(line):
		t.card(cardRow.FindStringSubmatch(line), cells)
	case t.current != nil && t.temperature < len(cells) && t.current.stats.Temperature == nil:
		t.current.stats.Temperature = firstCelsius(cells[t.temperature])
	}
}

// header notes where the columns are; it reports whether cells are of a heading.
func (t *table) header(cells []string) bool {
	found := false
	for i, cell := range cells {
		words := strings.Fields(cell)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "%GPU":
			t.utilization, found = i, true
		case "Temp":
			t.temperature, found = i, true
		case "ID", "PCIe", "Pcie":
			found = true
		}
	}
	return found
}

func (t *table) card(m, cells []string) {
	bus := text.BusID(cells[1])
	if bus == "" {
		return
	}
	c := &card{device: gpu.Device{
		Index: text.Natural(m[1]), Model: text.String(m[2]), BusID: bus, DriverVersion: t.driver,
	}}
	if t.utilization < len(cells) {
		for word := range strings.FieldsSeq(cells[t.utilization]) {
			if strings.HasSuffix(word, "%") {
				c.stats.Utilization = text.Share(word)
				break
			}
		}
	}
	for _, cell := range cells[2:] {
		for _, m := range memory.FindAllStringSubmatch(cell, -1) {
			used, total := text.Bytes(m[1], ""), text.Bytes(m[2], "")
			if used != nil || total != nil { // not a PCIe width, 16x(16x)
				c.stats.MemoryUsed, c.device.MemoryTotal = used, text.Positive(total)
			}
		}
	}
	t.cards = append(t.cards, c)
	t.current = c
}

// firstCelsius returns the first temperature in a cell, "49C   YES".
func firstCelsius(cell string) *float64 {
	for word := range strings.FieldsSeq(cell) {
		if _, unit, ok := text.Number(word); ok && unit != "" {
			return text.Celsius(word)
		}
	}
	return nil
}
