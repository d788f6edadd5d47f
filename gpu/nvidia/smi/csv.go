package smi

import (
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
	queryFlag = text.Lazy(`^--query-(gpu|compute-apps|apps)(?:=(.*))?$`)
	loopFlag  = text.Lazy(`^(?:-l|-lms|--loop|--loop-ms)(?:=?\d+)?$`)
	unit      = text.Lazy(`\s*\[[^\]]*\]$`)
	fieldName = text.Lazy(`^[A-Za-z][A-Za-z0-9_.]*$`)
)

// query returns what argv asks for: gpu, compute-apps or apps, and the fields.
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

// headings returns the fields of a header line, or nil when the line is none.
func headings(cells []string) []string {
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
	if !known {
		return nil
	}
	return names
}

// csvReader is where reading CSV has come to.
type csvReader struct {
	*document
	what   string   // gpu, compute-apps or apps, if argv says it
	fields []string // of the columns, once known
	known  bool     // a row made sense
}

// readCSV reads --query-gpu and --query-compute-apps, with and without header
// and units. The header decides, else the command line does.
func (d *document) readCSV() bool {
	r := csvReader{document: d}
	r.what, r.fields = query(d.args)
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
	names := headings(cells)
	cut := len(cells) < len(r.fields) && !slices.Contains(r.fields, elided)
	switch {
	case names != nil && (len(names) > 1 || r.what != ""):
		r.fields, r.known = names, true
	case noProcesses.MatchString(line):
		r.known = true
	case len(r.fields) == 0, cut && !last: // nobody said what the columns are; or no row of them
	case strings.HasSuffix(r.what, "apps"), r.what == "" && slices.Contains(r.fields, "pid"):
		r.known = r.processRow(r.fields, cells) || r.known
	default:
		r.known = r.cardRow(at, r.fields, cells) || r.known
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

// cardRow reads one row of --query-gpu. A row without a single value stands in
// the place of a lost card that it does not name: it is none. In a loop the
// newest row of a card counts; without a name in the rows, the newest of all.
// The result says whether the row made sense.
func (d *document) cardRow(line int, fields, cells []string) bool {
	names, values, ok := align(fields, cells)
	if !ok {
		return false
	}
	c := &card{line: line}
	for i, name := range names {
		c.set(columns[name], values[i])
	}
	looping := slices.ContainsFunc(d.args, loopFlag.MatchString)
	at := slices.IndexFunc(d.cards, func(have *card) bool {
		return have.same(c) || looping && !have.named() && !c.named()
	})
	switch {
	case at >= 0:
		d.cards[at] = c
	case d.exitCode != 0 && !c.named() && !c.measured():
		return false // any words, such as a crash's, would do for a name
	case !c.empty():
		d.cards = append(d.cards, c)
	case c.word != "":
		d.unnamed = &problem{line, "telemetry_error", "a row without any value: " + strings.Join(cells, ", ")}
	default:
		return false
	}
	return true
}

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
