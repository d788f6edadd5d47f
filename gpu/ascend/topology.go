package ascend

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var nodeLabel = regexp.MustCompile(`^(NPU|Phy-ID)(\d{1,5})$`)

// matrix is "npu-smi info -t topo". Its labels are card ids (NPU3), on a 910C
// physical ids (Phy-ID3).
type matrix struct {
	physical bool
	topology gpu.Topology
}

func parseTopology(lines []string, _ scope) (gpu.Parsed, bool) {
	m, ok := readTopology(lines)
	if !ok {
		return gpu.Parsed{}, false
	}
	return gpu.Parsed{Topology: &m.topology}, true
}

// readTopology finds the heading as the line of labels only, which the CPU
// affinity may follow. "NA" means that the relation is not known: no link.
func readTopology(lines []string) (matrix, bool) {
	m := matrix{topology: gpu.Topology{Kind: string(gpu.Ascend)}}
	var columns []int
	affinity := false
	for _, line := range lines {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		row, ok := m.label(fields[0])
		switch {
		case !ok:
		case columns == nil:
			columns = m.labels(fields)
			affinity = strings.Contains(line, "CPU Affinity")
			if len(columns)+2 < len(fields) || !affinity && len(columns) < len(fields) {
				columns = nil
			}
		case len(fields) > len(columns):
			m.row(row, columns, fields[1:])
			if i := 1 + len(columns); affinity && i < len(fields) && !text.Absent(fields[i]) {
				m.topology.NUMA = append(m.topology.NUMA, gpu.Affinity{Index: row, CPUs: fields[i]})
			}
		}
	}
	return m, columns != nil
}

func (m *matrix) row(row int, columns []int, links []string) {
	for i, column := range columns {
		if row < column && !text.Absent(links[i]) && links[i] != "X" {
			m.topology.Links = append(m.topology.Links, gpu.Link{A: row, B: column, Type: links[i]})
		}
	}
}

// labels returns the numbers of the labels that fields begin with.
func (m *matrix) labels(fields []string) []int {
	var out []int
	for _, f := range fields {
		n, ok := m.label(f)
		if !ok {
			break
		}
		out = append(out, n)
	}
	return out
}

func (m *matrix) label(s string) (int, bool) {
	match := nodeLabel.FindStringSubmatch(s)
	if match == nil {
		return 0, false
	}
	n, err := strconv.Atoi(match[2])
	m.physical = match[1] == "Phy-ID"
	return n, err == nil
}

// byIndex renames the labels to the indices of devices. A label that is no
// device, or more than one (a card with two chips), has no place there.
func (m matrix) byIndex(devices []gpu.Device) *gpu.Topology {
	index := map[int]int{}
	for _, d := range devices {
		label := d.Card
		if m.physical {
			label = d.Minor
		}
		if label == nil || d.Index == nil {
			continue
		}
		if _, twice := index[*label]; twice {
			index[*label] = -1
			continue
		}
		index[*label] = *d.Index
	}
	at := func(label int) int {
		if i, ok := index[label]; ok {
			return i
		}
		return -1
	}
	t := gpu.Topology{Kind: m.topology.Kind}
	for _, l := range m.topology.Links {
		if a, b := at(l.A), at(l.B); a >= 0 && b >= 0 {
			t.Links = append(t.Links, gpu.Link{A: min(a, b), B: max(a, b), Type: l.Type})
		}
	}
	for _, n := range m.topology.NUMA {
		if i := at(n.Index); i >= 0 {
			t.NUMA = append(t.NUMA, gpu.Affinity{Index: i, CPUs: n.CPUs})
		}
	}
	return &t
}
