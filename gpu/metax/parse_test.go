package metax

import (
	"fmt"
	"os"
	"path/filepath"
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

const oneCard = `| MX-SMI 2.3.3                       Kernel Mode Driver Version: 3.9.1            |
| Board       Name | GPU   Persist-M | Bus-id              | GPU-Util      sGPU-M |
| Pwr:Usage/Cap    | Temp       Perf | Memory-Usage        | GPU-State            |
| 0     MetaX C500 | 0           Off | 0000:21:00.0        | 87%         Disabled |
| 301W / 350W      | 68C          P0 | 61000/65536 MiB     | Available            |
`

func TestTableToleratesWhatOtherVersionsPrint(t *testing.T) {
	plain := parse(t, oneCard)
	for _, c := range []struct{ name, out string }{
		{"a column more", `| MX-SMI 2.9.0   Kernel Mode Driver Version: 3.9.1 |
| Board       Name | GPU   Persist-M | Bus-id              | Fan | GPU-Util      sGPU-M | New |
| Pwr:Usage/Cap    | Temp       Perf | Memory-Usage        | 30% | GPU-State            | 5%  |
| 0     MetaX C500 | 0           Off | 0000:21:00.0        | 31% | 87%         Disabled | x   |
| 301W / 350W      | 68C          P0 | 61000/65536 MiB     | 32% | Available            | y   |
`},
		{"the performance state elsewhere", strings.ReplaceAll(oneCard, "68C          P0", "68C    P0      ")},
		{"wide values that lose their blanks", strings.ReplaceAll(strings.ReplaceAll(oneCard, "301W / 350W", "301W/350W"), "61000/65536", "61000 / 65536")},
		{"a state whose heading is another", strings.Replace(oneCard, "GPU-State", "GPU-Util ", 1)},
		{"lines around it", "warning: deprecated\n" + oneCard + "note\nEnd of Log\n"},
		{"carriage returns", strings.ReplaceAll(oneCard, "\n", "\r\n")},
		{"the row twice", oneCard + oneCard},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(plain, parse(t, c.out)); diff != "" {
				t.Errorf("(-plain +got):\n%s", diff)
			}
		})
	}
}

func TestACutTableIsReadUpToTheCut(t *testing.T) {
	whole := read(t, "table.txt")
	p := parse(t, whole[:strings.Index(whole, "| NA / 350W")])
	if len(p.GPUs) != 2 || p.GPUs[1].MemoryTotal != nil {
		t.Errorf("%+v", p.GPUs)
	}
}

func TestCardsOfOtherContainersAreNotOurs(t *testing.T) {
	p := parse(t, "GPU#0  MXC500  0000:21:00.0  Not Available(MetaX Sysfs File Unaccessible)\n")
	if len(p.GPUs) > 0 || len(p.Failures) > 0 || p.CollectorError == nil || p.CollectorError.Code != CodeNoAccess {
		t.Errorf("%+v", p)
	}
}

func TestAnUnavailableCardHasItsReason(t *testing.T) {
	p := parse(t, "GPU#0  MXC500  0000:21:00.0   available\nGPU#1  MXC500  0000:22:00.0   unavailable: firmware\n")
	want := []gpu.Failure{{Index: new(1), BusID: "0000:22:00.0", Code: CodeNotAvailable, Message: "unavailable: firmware"}}
	if diff := cmp.Diff(want, p.Failures); diff != "" || p.Stats[0].Health != gpu.HealthOK {
		t.Errorf("%+v (-want +got):\n%s", p.Stats, diff)
	}
}

func TestProcessesBesideALogDoNotHideItsCards(t *testing.T) {
	p := parse(t, "GPU#0  MXC500  0000:21:00.0\n    Utilization\n        GPU   : 5 %\n+---+\n| Process: |\n|  0   4711   python   60 |\n")
	if len(p.GPUs) != 1 || *p.Stats[0].Utilization != 5 || len(p.Processes) != 1 {
		t.Errorf("%+v", p)
	}
}

func TestOtherTextIsNotAForm(t *testing.T) {
	for _, out := range []string{
		"", "\n\n", "{}", `{"a": {"b": 1}}`, "[1]", "GPU\n", "dev die\n0 0\n", "+---+\n", "| a | b | c |\n",
		"| NVIDIA-SMI 550.54 |\n", "reset done\n",
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
	f.Add([]byte("PARSE ERROR: Argument: -q"))
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
			if !strings.Contains(text.Clean(out), fmt.Sprint(*d.Index)) || seen[*d.Index] {
				t.Errorf("card %d is not in the text, or twice", *d.Index)
			}
			seen[*d.Index] = true
		}
	})
}

func BenchmarkCollectEightCards(b *testing.B) {
	var out strings.Builder
	out.WriteString(strings.Join(strings.SplitAfter(oneCard, "\n")[:3], ""))
	for i := range 8 {
		fmt.Fprintf(&out, "| %d     MetaX C500 | %d           Off | 0000:2%d:00.0        | 87%%         Disabled |\n"+
			"| 301W / 350W      | 6%dC          P0 | 61000/65536 MiB     | Available            |\n"+
			"+------------------+-----------------+---------------------+----------------------+\n", i, i, i, i)
	}
	d := New(tool.NewReplay(said("mx-smi", 0, out.String())))
	b.ReportAllocs()
	for b.Loop() {
		rep, err := d.Collect(b.Context())
		if err != nil || len(rep.Devices) != 8 || *rep.Stats[7].Temperature != 67 {
			b.Fatal(rep.Devices, err)
		}
	}
}
