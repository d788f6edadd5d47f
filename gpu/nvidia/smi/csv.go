package smi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// columns are the fields of --query-gpu under all their names (nvidia-smi
// --help-query-gpu of drivers 340 to 610).
var columns = map[string]field{
	"index": fieldIndex,
	"uuid":  fieldUUID, "gpu_uuid": fieldUUID,
	"name": fieldModel, "gpu_name": fieldModel,
	"pci.bus_id": fieldBusID, "gpu_bus_id": fieldBusID,
	"pci.domain": fieldPCIDomain, "pci.bus": fieldPCIBus, "pci.device": fieldPCIDevice,
	"serial": fieldSerial, "gpu_serial": fieldSerial,
	"vbios_version":  fieldVBIOS,
	"driver_version": fieldDriver, "kmd_version": fieldDriver,
	"minor_number": fieldMinor,
	"memory.total": fieldMemoryTotal, "memory.used": fieldMemoryUsed,
	"utilization.gpu": fieldUtilization,
	"temperature.gpu": fieldTemperature,
	"power.draw":      fieldPower, "power.draw.instant": fieldPowerInstant, "power.draw.average": fieldPowerAverage,
	"power.limit": fieldPowerLimit, "enforced.power.limit": fieldPowerEnforced,
	"mig.mode.current":                      fieldMIGMode,
	"reset_status.reset_required":           fieldReset,
	"gpu_recovery_action":                   fieldAction,
	"ecc.errors.uncorrected.volatile.total": fieldECC,
	"remapped_rows.failure":                 fieldRemapFailure,
	"remapped_rows.pending":                 fieldRemapPending,
	"retired_pages.pending":                 fieldRemapPending,
}

// processColumns are the fields of --query-compute-apps that are of interest.
var processColumns = []string{"pid", "process_name", "name", "gpu_uuid", "used_gpu_memory", "used_memory"}

// elided stands for fields that the writer of a command line left out.
const elided = "..."

var (
	queryFlag = text.Lazy(`^--query-(gpu|compute-apps|apps|accounted-apps|supported-clocks|retired-pages|remapped-rows)(?:=(.*))?$`)
	loopFlag  = text.Lazy(`^(?:-l|-lms|--loop|--loop-ms)(?:=?\d+)?$`)
	unit      = text.Lazy(`\s*\[[^\]]*\]$`)
	fieldName = text.Lazy(`^[A-Za-z][A-Za-z0-9_.]*$`)
)

// asides are the queries whose rows are neither cards nor running processes.
var asides = []string{"accounted-apps", "supported-clocks", "retired-pages", "remapped-rows"}

// query returns what argv asks for: gpu, compute-apps or apps, or one of asides,
// and the fields.
func query(args []string) (what string, fields []string) {
	for i, a := range args {
		m := queryFlag.FindStringSubmatch(a)
		if m == nil {
			continue
		}
		list := m[2]
		if list == "" && i+1 < len(args) {
			list = args[i+1]
		}
		return m[1], splitRow(list)
	}
	return "", nil
}

func splitRow(line string) []string {
	cells := strings.Split(line, ",")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// headings returns the fields of a header line, or nil when the line is none:
// one names a field that is known here, or just those that were asked for.
func headings(cells, asked []string) []string {
	known := false
	names := make([]string, len(cells))
	for i, cell := range cells {
		names[i] = unit.ReplaceAllString(cell, "")
		if !fieldName.MatchString(names[i]) {
			return nil
		}
		_, isColumn := columns[names[i]]
		known = known || isColumn || slices.Contains(processColumns, names[i])
	}
	if !known && !slices.Equal(names, asked) {
		return nil
	}
	return names
}

// csvReader is where reading CSV has come to.
type csvReader struct {
	*document
	what   string   // gpu, compute-apps or apps, if argv says it
	fields []string // of the columns, once known
	headed bool     // by a header
	known  bool     // a row made sense
}

// readCSV reads --query-gpu and --query-compute-apps, with and without header
// and units. The header decides, else the command line does.
func (d *document) readCSV() bool {
	r := csvReader{document: d}
	r.what, r.fields = query(d.args)
	if slices.Contains(asides, r.what) {
		return true
	}
	last := lastRow(d.lines)
	r.known = last < 0 // no row at all is an answer, too: no process
	for i, line := range d.lines[:last+1] {
		if strings.TrimSpace(line) != "" {
			r.row(i, line, i == last)
		}
	}
	return r.known && (r.what != "" || len(r.fields) > 0)
}

// row reads one line. Only the last may have been cut.
func (r *csvReader) row(at int, line string, last bool) {
	if strings.Contains(line, "--query-") { // a pasted prompt
		r.what, r.fields = query(text.SplitCommand(line))
		return
	}
	cells := splitRow(line)
	names := headings(cells, r.fields)
	cut := len(cells) < len(r.fields) && !slices.Contains(r.fields, elided)
	switch {
	case names != nil && (len(names) > 1 || r.what != ""):
		r.fields, r.known, r.headed = names, true, true
	case noProcesses.MatchString(line):
		r.known = true
	case len(r.fields) == 0, cut && !last: // nobody said what the columns are; or no row of them
	case strings.HasSuffix(r.what, "apps"), r.what == "" && slices.Contains(r.fields, "pid"):
		r.known = r.processRow(r.fields, cells) || r.known
	default:
		r.known = r.cardRow(at, cells) || r.known
	}
}

// lastRow returns the last line that holds something, or -1.
func lastRow(lines []string) int {
	for i, line := range slices.Backward(lines) {
		if strings.TrimSpace(line) != "" {
			return i
		}
	}
	return -1
}

// align pairs the cells of a row with fields. Of a row that was cut, the last
// cell may be half a value and is left out. ok is false for a row that does not
// fit: its meaning is not known.
func align(fields, cells []string) (names []string, values []string, ok bool) {
	gap := slices.Index(fields, elided)
	switch {
	case gap >= 0:
		tail := fields[gap+1:]
		if len(cells) < gap+len(tail) {
			return nil, nil, false
		}
		values = append(append(values, cells[:gap]...), cells[len(cells)-len(tail):]...)
		return append(append(names, fields[:gap]...), tail...), values, true
	case len(cells) > len(fields):
		return nil, nil, false
	case len(cells) < len(fields):
		return fields[:len(cells)-1], cells[:len(cells)-1], len(cells) > 1
	}
	return fields, cells, true
}

// cardRow reads one row of --query-gpu. In a loop the newest row of a card
// counts; without a name in the rows, the newest of all. The result says whether
// the row made sense.
func (r *csvReader) cardRow(line int, cells []string) bool {
	names, values, ok := align(r.fields, cells)
	if !ok {
		return false
	}
	c := &card{line: line}
	for i, name := range names {
		c.set(columns[name], values[i])
	}
	if c.device.BusID == "" {
		c.device.BusID = text.JoinBusID(c.pci[0], c.pci[1], c.pci[2], "")
	}
	switch at := r.sampled(c); {
	case at >= 0:
		r.cards[at] = c
	case r.exitCode != 0 && !c.named() && !c.measured() && !c.sick():
		return false // any words, such as a crash's, would do for a name
	case !c.empty(), r.says(values):
		r.cards = append(r.cards, c)
	case c.sick():
		r.emptyRow(c, "a row without any value: "+strings.Join(cells, ", "))
	default:
		return false
	}
	return true
}

// says reports whether a row says something, though it may be of no interest. One
// word below no heading could be anything, such as a crash's, but not a number.
func (r *csvReader) says(values []string) bool {
	if !slices.ContainsFunc(values, func(v string) bool { return !unread(v) }) {
		return false
	}
	return r.headed || len(values) > 1 || text.Float(values[0], "", "%", "MiB", "W", "MHz") != nil
}

// sampled returns which card the row is a newer sample of, or -1.
func (r *csvReader) sampled(c *card) int {
	looping := slices.ContainsFunc(r.args, loopFlag.MatchString)
	return slices.IndexFunc(r.cards, func(have *card) bool {
		return have.same(c) || looping && !have.named() && !c.named()
	})
}

// emptyRow notes a row without a single value. It stands in the place of a lost
// card that it does not name, below the line that does, if there is one.
func (d *document) emptyRow(c *card, message string) {
	d.lines[c.line] = ""
	for i := range d.failures {
		f := &d.failures[i]
		if !f.row && f.line < c.line && !slices.ContainsFunc(d.lines[f.line:c.line], filled) {
			f.row = true
			return
		}
	}
	code := cmp.Or(c.fault, codeTelemetry)
	d.failures = append(d.failures, failure{line: c.line, row: true, Failure: gpu.Failure{Code: code, Message: message}})
}

func filled(line string) bool { return strings.TrimSpace(line) != "" }

// same reports whether two rows are samples of one card.
func (c *card) same(o *card) bool {
	a, b := c.device, o.device
	switch {
	case a.UUID != "" && b.UUID != "":
		return a.UUID == b.UUID && sameIndex(a.Index, b.Index)
	case a.BusID != "" && b.BusID != "":
		return a.BusID == b.BusID
	}
	return a.Index != nil && b.Index != nil && *a.Index == *b.Index
}

func sameIndex(a, b *int) bool { return a == nil || b == nil || *a == *b }

// processRow reads one row of --query-compute-apps. A name may contain commas.
func (d *document) processRow(fields, cells []string) bool {
	if extra, at := len(cells)-len(fields), nameColumn(fields); extra > 0 && at >= 0 {
		name := strings.Join(cells[at:at+extra+1], ", ")
		cells = slices.Concat(cells[:at], []string{name}, cells[at+extra+1:])
	}
	names, values, ok := align(fields, cells)
	if !ok {
		return false
	}
	var p gpu.Process
	for i, name := range names {
		value := values[i]
		if unread(value) {
			continue
		}
		switch name {
		case "pid":
			if n := text.Int(value); n != nil && *n > 0 {
				p.PID = *n
			}
		case "process_name", "name":
			p.Name = value
		case "gpu_uuid":
			p.UUID = value
		case "used_gpu_memory", "used_memory":
			p.MemoryUsed = text.MiB(value)
		}
	}
	if p.PID > 0 { // without permission the row holds no pid: nothing is known
		d.parsed.Processes = append(d.parsed.Processes, p)
	}
	return true
}

func nameColumn(fields []string) int {
	return slices.IndexFunc(fields, func(f string) bool { return f == "process_name" || f == "name" })
}
