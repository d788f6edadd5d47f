package musa

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
	"github.com/heteroflow/node-agent/gpu/tool"
)

func parse(t *testing.T, out string) gpu.Parsed {
	t.Helper()
	p, err := Parse([]string{toolName}, 0, []byte(out))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTableToleratesWhatOtherVersionsPrint(t *testing.T) {
	plain := parse(t, oneRow)
	for _, c := range []struct{ name, out string }{
		{"a cell more", "    mthreads-gmi:2.0.0           Driver Version:3.0.0\nID Name |PCIe |Fan |%GPU Mem\nDevice Type |Pcie Lane Width | |Temp MPC\n" +
			"0    MTT S80 |00000000:01:00.0 |30% |0%    3419MiB(16384MiB)\n     Physical |16x(16x) | |59C   YES\n"},
		{"collapsed blanks and empty lines", strings.ReplaceAll(regexp.MustCompile(` {2,}`).ReplaceAllString(oneRow, " "), "\n", "\n\n")},
		{"carriage returns", strings.ReplaceAll(oneRow, "\n", "\r\n")},
		{"lines around it", "warning: deprecated\n" + oneRow + "note\n"},
		{"the row twice", oneRow + oneRow},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(plain, parse(t, c.out)); diff != "" {
				t.Errorf("(-plain +got):\n%s", diff)
			}
		})
	}
}

func TestACutTextIsReadUpToTheCut(t *testing.T) {
	whole := read(t, "table.txt")
	if p := parse(t, whole[:strings.Index(whole, "P8")]); len(p.GPUs) != 2 {
		t.Errorf("table: %d cards, want 2", len(p.GPUs))
	}
	query := read(t, "query.json.txt")
	if p := parse(t, query[:strings.Index(query, `"Index": "3"`)]); len(p.GPUs) != 1 || p.GPUs[0].DriverVersion == "" {
		t.Errorf("JSON: %+v", p.GPUs)
	}
}

func TestQueryWithoutHeadingsIsReadCardByCard(t *testing.T) {
	p := parse(t, "Driver Version : 3.0.0\nIndex : 0\nProduct Name : N/A\nFB Memory Usage\n    Used : 1MiB\n"+
		"Index : 2\nProduct Name : MTT S80\nFB Memory Usage\n    Used : 2MiB\n")
	if len(p.GPUs) != 2 || *p.GPUs[1].Index != 2 || *p.Stats[0].MemoryUsed != 1<<20 || *p.Stats[1].MemoryUsed != 2<<20 {
		t.Errorf("%+v", p)
	}
}

func TestACutNumberIsNotTakenForAWhole(t *testing.T) {
	p := parse(t, "GPU0\n    Product Name : MTT S80\n    Temperature\n        GPU Current Temp : 4")
	if len(p.Stats) > 0 {
		t.Errorf("%+v", p.Stats[0])
	}
}

func TestAnErrorThatNamesACardIsThatCards(t *testing.T) {
	p := parse(t, "Error: query GPU 3 timed out\nFailed to open 0000:21:00.0\n")
	want := []gpu.Failure{
		{Index: new(3), Code: CodeCardFailed, Message: "Error: query GPU 3 timed out"},
		{BusID: "0000:21:00.0", Code: CodeCardFailed, Message: "Failed to open 0000:21:00.0"},
	}
	if diff := cmp.Diff(want, p.Failures); diff != "" || p.CollectorError != nil {
		t.Errorf("%v (-want +got):\n%s", p.CollectorError, diff)
	}
}

func TestAnErrorOfACardBesideTheRowsOfOthersIsNotLost(t *testing.T) {
	p := parse(t, "Error: failed to open GPU 7\n"+read(t, "table.txt"))
	if len(p.GPUs) == 0 || len(p.Failures) != 1 || *p.Failures[0].Index != 7 {
		t.Errorf("%+v", p)
	}
}

func TestOtherTextIsNotAForm(t *testing.T) {
	for _, out := range []string{
		"", "\n\n", "{}", `{"GPU": 1}`, "[1]", "GPU\n", "0 1 2\n", "+---+\n",
		"| NVIDIA-SMI 550 |\n|   0  NVIDIA A100 | 00000000:07:00.0 Off |\n",
	} {
		if p, err := Parse([]string{toolName}, 1, []byte(out)); err == nil {
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
	f.Add([]byte("Error: No MT GPU device found."))
	f.Fuzz(func(t *testing.T, out []byte) {
		p, err := Parse([]string{toolName}, 0, out)
		if err != nil {
			return
		}
		if len(p.Stats) > len(p.GPUs) {
			t.Errorf("%d rows of measurements for %d cards", len(p.Stats), len(p.GPUs))
		}
		seen := map[int]bool{}
		for _, d := range p.GPUs {
			printed := strings.Contains(text.Clean(out), fmt.Sprint(*d.Index)) || strings.Contains(string(out), "GPU")
			if !printed || seen[*d.Index] {
				t.Errorf("card %d is not in the text, or twice", *d.Index)
			}
			seen[*d.Index] = true
		}
	})
}

func BenchmarkCollectEightCards(b *testing.B) {
	var out strings.Builder
	out.WriteString(`{"Driver Version": "3.3.9-server", "Attached GPUs": "8", "GPU": [`)
	for i := range 8 {
		sep := map[bool]string{true: "", false: ", "}[i == 0]
		fmt.Fprintf(&out, `%s{"Index": "%d", "Product Name": "MTT S5000", "GPU UUID": "11111111-0000-4000-8000-00000000000%d",
 "PCI": {"Bus": "0x2%d", "Bus ID": "00000000:2%d:00.0"}, "FB Memory Usage": {"Total": "81920MiB", "Used": "%dMiB", "Free": "1MiB"},
 "Utilization": {"Gpu": "42%%", "Memory": "1%%"}, "Temperature": {"GPU Current Temp": "5%dC"},
 "Power Readings": {"Power Draw ": "300.25W", "Current Power Limit": "950.00W"}, "Clocks": {"Graphics": "1750MHz"}}`, sep, i, i, i, i, i, i)
	}
	d := New(tool.NewReplay(said("mthreads-gmi -q --json", 0, out.String()+"]}")))
	b.ReportAllocs()
	for b.Loop() {
		rep, err := d.Collect(b.Context())
		if err != nil || len(rep.Devices) != 8 || *rep.Stats[7].Temperature != 57 {
			b.Fatal(rep.Devices, err)
		}
	}
}
