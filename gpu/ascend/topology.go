package ascend

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
)

// matrix is "npu-smi info -t topo". Its labels are card ids (NPU3), on a 910C
// physical ids (Phy-ID3), in Topology as if they were indices.
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

func readTopology(lines []string) (matrix, bool) {
	t := gpu.ParseMatrix(gpu.Ascend, lines)
	if t == nil {
		return matrix{}, false
	}
	physical := slices.ContainsFunc(lines, func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), "Phy-ID")
	})
	return matrix{physical: physical, topology: *t}, true
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
		switch {
		case label == nil || d.Index == nil:
		case has(index, *label):
			index[*label] = ambiguous
		default:
			index[*label] = *d.Index
		}
	}
	at := func(label int) (int, bool) {
		i, ok := index[label]
		return i, ok && i != ambiguous
	}
	t := gpu.Topology{Kind: m.topology.Kind}
	for _, l := range m.topology.Links {
		a, okA := at(l.A)
		if b, okB := at(l.B); okA && okB {
			t.Links = append(t.Links, gpu.Link{A: min(a, b), B: max(a, b), Type: l.Type})
		}
	}
	for _, l := range m.topology.NICs {
		if i, ok := at(l.Index); ok {
			l.Index = i
			t.NICs = append(t.NICs, l)
		}
	}
	for _, n := range m.topology.NUMA {
		if i, ok := at(n.Index); ok {
			n.Index = i
			t.NUMA = append(t.NUMA, n)
		}
	}
	return &t
}

// ambiguous stands for the index of a label that several devices have.
const ambiguous = -1

func has(m map[int]int, key int) bool {
	_, ok := m[key]
	return ok
}
