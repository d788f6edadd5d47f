package gpu

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu/text"
)

func TestParseMatrix(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     *Topology
	}{
		{
			"two cards and a NIC, underlined header, spaces",
			"        \x1b[4mGPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID\x1b[0m\n" +
				"GPU0     X      NV18    PIX     0-15,32-47      0               N/A\n" +
				"GPU1    NV18     X      SYS     16-31           1               N/A\n" +
				"NIC0    PIX     SYS      X\n\nLegend:\n\n  X    = Self\n",
			&Topology{
				Kind:  "nvidia",
				Links: []Link{{0, 1, "NV18"}},
				NUMA:  []Affinity{{0, new(0), "0-15,32-47"}, {1, new(1), "16-31"}},
				NICs:  []NICLink{{0, "NIC0", "PIX"}, {1, "NIC0", "SYS"}},
			},
		},
		{
			"blank affinity cells between tabs",
			"\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n" +
				"GPU0\t X \tPHB\t\t1\tN/A\nGPU1\tPHB\t X \t\t\tN/A\n",
			&Topology{Kind: "nvidia", Links: []Link{{0, 1, "PHB"}}, NUMA: []Affinity{{0, new(1), ""}}},
		},
		{
			"one card",
			"\tGPU0\tCPU Affinity\nGPU0\t X \t0-3\n",
			&Topology{Kind: "nvidia", NUMA: []Affinity{{0, nil, "0-3"}}},
		},
		{
			"node before CPU affinity",
			"GPU0 GPU1 Node Affinity  CPU Affinity\nGPU0 X MX 0 0-15\nGPU1 MX X 1 16-31\n",
			&Topology{Kind: "nvidia", Links: []Link{{0, 1, "MX"}}, NUMA: []Affinity{{0, new(0), "0-15"}, {1, new(1), "16-31"}}},
		},
		{
			"sparse numbers, and a pair that only one row of a cropped matrix has",
			"Phy-ID12 Phy-ID13 Phy-ID14\nPhy-ID13 SIO X HCCS_SW\n",
			&Topology{Kind: "nvidia", Links: []Link{{12, 13, "SIO"}, {13, 14, "HCCS_SW"}}},
		},
		{
			"a pair that was not measured, in every tool's word for it",
			"GPU0 GPU1 GPU2 mlx5_0\nGPU0 X NA N/A NA\nGPU1 NA X SYS PIX\nGPU2 - SYS X ERR!\n",
			&Topology{Kind: "nvidia", Links: []Link{{1, 2, "SYS"}}, NICs: []NICLink{{1, "mlx5_0", "PIX"}}},
		},
		{
			"a word with small letters",
			"NPU0 NPU1 NPU2 CPU Affinity\nNPU0 X XLink XLink_SW 0-3\nNPU1 XLink X SIO 4-7\n",
			&Topology{
				Kind: "nvidia", Links: []Link{{0, 1, "XLink"}, {0, 2, "XLink_SW"}, {1, 2, "SIO"}},
				NUMA: []Affinity{{0, nil, "0-3"}, {1, nil, "4-7"}},
			},
		},
		{"the heading of one card in a log", "GPU0 00000000:01:00.0\n    Index : 0\nGPU1 00000000:02:00.0\n", nil},
		{"a name below which no row stands", "GPU0 Some Card\nGPU1 Some Card\n", nil},
		{
			"printed twice",
			strings.Repeat("GPU0 GPU1 CPU Affinity\nGPU0 X PHB 0-3\nGPU1 PHB X 4-7\n\n", 2),
			&Topology{Kind: "nvidia", Links: []Link{{0, 1, "PHB"}}, NUMA: []Affinity{{0, nil, "0-3"}, {1, nil, "4-7"}}},
		},
		{"no matrix", "Legend:\n  X    = Self\nGPU0  X  SYS\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ParseMatrix(NVIDIA, text.Lines([]byte(c.in)))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseMatrix(f *testing.F) {
	f.Add("GPU0 GPU1 NIC0 CPU Affinity\nGPU0 X SYS PIX 0-3\nGPU1 SYS X PIX 0-3\n")
	f.Add("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t\t\t\tN/A\n")
	f.Fuzz(func(t *testing.T, s string) {
		topo := ParseMatrix(NVIDIA, text.Lines([]byte(s)))
		if topo == nil {
			return
		}
		for _, l := range topo.Links {
			if l.A >= l.B || !strings.Contains(s, l.Type) {
				t.Errorf("invented link %+v", l)
			}
		}
	})
}
