package hygon

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
)

// topologyOf returns the links of --showtopo's matrix of link types and the NUMA
// nodes of the cards, or nil when there is neither. The matrices of weights,
// hops and access say nothing that the types do not.
func topologyOf(found cards, lines []string) *gpu.Topology {
	t := gpu.ParseMatrix(gpu.Hygon, section(lines, "Link Type between"))
	if t == nil {
		t = &gpu.Topology{Kind: string(gpu.Hygon)}
	}
	for n, c := range found {
		if c.numa != nil {
			t.NUMA = append(t.NUMA, gpu.Affinity{Index: n, Node: c.numa})
		}
	}
	slices.SortFunc(t.NUMA, func(a, b gpu.Affinity) int { return a.Index - b.Index })
	if len(t.Links) == 0 && len(t.NUMA) == 0 {
		return nil
	}
	return t
}

// section returns the lines below the heading that contains title, up to the
// next heading ("===== Numa Nodes =====").
func section(lines []string, title string) []string {
	from := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, title) })
	if from < 0 {
		return nil
	}
	rest := lines[from+1:]
	if end := slices.IndexFunc(rest, isHeading); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

func isHeading(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "==") && strings.Trim(line, "= ") != ""
}
