package kunlun

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

func parse(t *testing.T, out string) gpu.Parsed {
	t.Helper()
	p, err := Parse([]string{"xpu_smi"}, 0, []byte(out))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const row = "|   1  P900 OAM           N/A   | 00000000:0A:00.0 N/A |                    0 |\n" +
	"| N/A   41C  N/A    399W / 400W |  97000MiB / 98304MiB |     99%      Default |\n" +
	"|                               |     96MiB /    96MiB |             Disabled |\n"

func TestTableToleratesWhatOtherVersionsPrint(t *testing.T) {
	plain := parse(t, row)
	for _, c := range []struct{ name, out string }{
		{"a fourth line a card", row + "|                               |                  new |                  N/A |\n"},
		{"no third line", strings.Join(strings.SplitAfter(row, "\n")[:2], "")},
		{"lines around it", "note\n+----+\n" + row + "| note |\n"},
		{"indented", "    " + strings.ReplaceAll(row, "\n", "\n    ")},
		{"carriage returns", strings.ReplaceAll(row, "\n", "\r\n")},
		{"printed twice in a loop", row + row},
		{"persistence mode on", strings.Replace(row, "OAM           N/A", "OAM           On ", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(plain, parse(t, c.out)); diff != "" {
				t.Errorf("(-plain +got):\n%s", diff)
			}
		})
	}
}

func TestOldTableIsReadByItsHeader(t *testing.T) {
	const old = "| DevID | Model | Temp |   PCI Addr   | New |    Memory     |\n" +
		"|     2 | R209  |   44 | 0001:03:00.0 |   x | 7 / 13568 MB |\n"
	p := parse(t, old)
	if len(p.GPUs) != 1 || p.GPUs[0].BusID != "0001:03:00.0" || *p.Stats[0].Temperature != 44 ||
		*p.Stats[0].MemoryUsed != 7<<20 {
		t.Errorf("%+v %+v", p.GPUs, p.Stats)
	}
}

func TestACutNumberIsNotTakenForAWhole(t *testing.T) {
	p := parse(t, row[:strings.Index(row, "8304MiB")])
	if len(p.GPUs) != 1 || p.GPUs[0].MemoryTotal != nil {
		t.Errorf("%+v", p.GPUs)
	}
}

func TestACutOldRowLosesItsLastCell(t *testing.T) {
	p := parse(t, "| DevID |   PCI Addr   | Model |        SN        |\n|     2 | 0001:03:00.0 | R209  | 02K00")
	if len(p.GPUs) != 1 || p.GPUs[0].Model != "R209" || p.GPUs[0].Serial != "" {
		t.Errorf("%+v", p.GPUs)
	}
}

func TestTheChipsOfABoardAreToldApart(t *testing.T) {
	raw, err := os.ReadFile("testdata/old-table.txt")
	if err != nil {
		t.Fatal(err)
	}
	p := parse(t, string(raw))
	if a, b, other := p.GPUs[0], p.GPUs[1], p.GPUs[2]; a.BusID != b.BusID || *a.Chip != 0 || *b.Chip != 1 || other.Chip != nil {
		t.Errorf("%+v", p.GPUs)
	}
}

func TestTwoDevicesOfOneNumberGetTheirPlaces(t *testing.T) {
	line := "0000:87:00.0 0 0 02K0 41 0 0 0 37250 9 9 9 9 9 9 0 16 900 8064 0 1.0 \"K209\" 0\n"
	p := parse(t, line+line)
	if len(p.GPUs) != 2 || *p.GPUs[0].Index != 0 || *p.GPUs[1].Index != 1 || p.GPUs[1].Minor != nil {
		t.Errorf("%+v", p.GPUs)
	}
}

func TestOtherTextIsNotAForm(t *testing.T) {
	for _, out := range []string{
		"", "\n\n", "xpu_smi: command not found\n", "{}", "| a | b | c |\n",
		"Intel(R) Data Center GPU\nXPU 0: 0000:03:00.0\n", "| DevID | Model |\n| 0 | x |\n",
	} {
		if p, err := Parse([]string{"xpu_smi"}, 1, []byte(out)); err == nil {
			t.Errorf("%q is taken for %+v", out, p)
		}
	}
}

func FuzzParse(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(seeds) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, s := range seeds {
		b, err := os.ReadFile(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		p, err := Parse([]string{"xpu_smi"}, 0, out)
		if err != nil {
			return
		}
		if len(p.Stats) > len(p.GPUs) {
			t.Errorf("%d rows of measurements for %d cards", len(p.Stats), len(p.GPUs))
		}
		seen := map[int]bool{}
		for i, d := range p.GPUs {
			if d.Index == nil || seen[*d.Index] {
				t.Fatalf("card %d: index %v is missing or taken", i, d.Index)
			}
			seen[*d.Index] = true
			if *d.Index != i && !strings.Contains(string(out), fmt.Sprint(*d.Index)) {
				t.Errorf("card %d is not in the text", *d.Index)
			}
		}
		if len(p.GPUs) > strings.Count(string(out), "\n")+1 {
			t.Errorf("%d cards in %d lines", len(p.GPUs), strings.Count(string(out), "\n")+1)
		}
	})
}

func BenchmarkCollectEightCards(b *testing.B) {
	out := "| XPU-SMI               Driver Version: 5.0.22.10    XPU-RT Version: 5.0.22   |\n"
	for i := range 8 {
		out += strings.Replace(strings.Replace(row, "|   1", fmt.Sprintf("|   %d", i), 1), ":0A:", fmt.Sprintf(":0%d:", i+1), 1)
	}
	d := New(tool.NewReplay(said("xpu_smi", 0, out)))
	b.ReportAllocs()
	for b.Loop() {
		rep, err := d.Collect(b.Context())
		if err != nil || len(rep.Devices) != 8 {
			b.Fatal(len(rep.Devices), err)
		}
	}
}
