package ascend

import (
	"fmt"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// processTable reads the table below that of the chips. Its rows look like
// chips' lines; only its header, with "Process id", tells it apart. It holds at
// most eight processes a chip.
type processTable struct {
	columns map[string]int // heading in lower case → cell
	rows    []processRow
}

type processRow struct {
	card, chip *int
	process    gpu.Process
}

func (t *processTable) heading(cells []string) bool {
	columns := map[string]int{}
	for i, c := range cells {
		columns[strings.ToLower(c)] = i
	}
	if _, ok := columns["process id"]; !ok {
		return false
	}
	t.columns = columns
	return true
}

func (t *processTable) row(cells []string) {
	cell := func(name string) string {
		if i, ok := t.columns[name]; ok && i < len(cells) {
			return cells[i]
		}
		return ""
	}
	pid, ids := id(cell("process id")), strings.Fields(cells[0])
	if pid == nil || len(ids) == 0 || id(ids[0]) == nil {
		return // "No running processes found in NPU 0"
	}
	r := processRow{card: id(ids[0]), process: gpu.Process{
		PID: *pid, Name: text.String(cell("process name")), MemoryUsed: text.MiB(cell("process memory(mb)")),
	}}
	if len(ids) > 1 {
		r.chip = id(ids[1])
	}
	t.rows = append(t.rows, r)
}

var (
	// processLine is a line of "-t proc-mem", which is about one chip. A kernel
	// thread, or a process of another container, has no name.
	processLine = text.Lazy(
		`Process id\s*:\s*(\d+)\s+(?:Process name\s*:\s*(.*?)\s+)?Process memory\(MB\)\s*:\s*(\d+)`)
	noProcess = text.Lazy(`^\s*No process in device`)
)

// listedProcess reads such a line; the process is nil where the line says that
// there is none.
func listedProcess(line string) (*gpu.Process, bool) {
	m := processLine.FindStringSubmatch(line)
	if m == nil {
		return nil, noProcess.MatchString(line)
	}
	pid := id(m[1])
	if pid == nil {
		return nil, false
	}
	return &gpu.Process{PID: *pid, Name: text.String(m[2]), MemoryUsed: text.MiB(m[3])}, true
}

// of returns the processes with the index of their device; without such a
// device in the output it is the card's number.
func (t *processTable) of(devices []gpu.Device) []gpu.Process {
	out := make([]gpu.Process, 0, len(t.rows))
	for _, r := range t.rows {
		r.process.Index = r.card
		for _, d := range devices {
			if equal(d.Card, r.card) && (r.chip == nil || equal(d.Chip, r.chip)) {
				r.process.Index = d.Index
				break
			}
		}
		out = append(out, r.process)
	}
	return out
}

// twinOf returns the device that d repeats: a container that was given one die
// of a 910C sees it twice, under two chip numbers (mind-cluster's document on
// soft allocation). The two chips of a 310P card share a bus id, too, but not a
// physical id.
func twinOf(devices []gpu.Device, d gpu.Device) *gpu.Device {
	for i := range devices {
		o := &devices[i]
		if d.Minor != nil && equal(d.Minor, o.Minor) && d.BusID != "" && d.BusID == o.BusID {
			return o
		}
	}
	return nil
}

func duplicate(of, d gpu.Device) string {
	name := func(n *int) string {
		if n == nil {
			return "?"
		}
		return fmt.Sprint(*n)
	}
	return fmt.Sprintf("same Phy-ID %s and Bus-Id %s as NPU %s chip %s: only one of them is there",
		name(d.Minor), d.BusID, name(of.Card), name(of.Chip))
}
