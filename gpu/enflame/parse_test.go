package enflame

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

func TestTableToleratesWhatOtherVersionsPrint(t *testing.T) {
	plain := parse(t, oneCard)
	for _, c := range []struct{ name, out string }{
		{"a column more", `| EFSMI: 1.9.0.1           Driver Ver: 1.7.3.1 |
| DEV    NAME                 | Boot FW VER       | New   | BUS-ID      ECC           |
| TEMP   Lpm   Pwr(Usage/Cap) | Mem      GCU Virt | New   | DUsed       SN            |
| 0      Enflame S60          | 40.2.9.1          | 5W    | 00:2c:00.0  Enable        |
| 45℃    LP0     168W / 300W  | 42976MiB Disable  | 7%    | 97%         TESTSERIAL006 |
`},
		{"a temperature in C", strings.Replace(oneCard, "45℃ ", "45 C", 1)},
		{"a bare temperature", strings.Replace(oneCard, "45℃", "45", 1)},
		{"no slash", strings.Replace(oneCard, "168W / 300W", "168W   300W", 1)},
		{"no blanks around the slash", strings.Replace(oneCard, "168W / 300W", "168W/300W", 1)},
		{"another word for the level", strings.Replace(oneCard, "LP0", "Active", 1)},
		{"lines around it", "warning: deprecated\n" + oneCard + "note\n"},
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

func TestACutNumberIsNotTakenForAWhole(t *testing.T) {
	p := parse(t, oneCard[:strings.Index(oneCard, "168W / 300W")+len("168W / 3")])
	if len(p.GPUs) != 1 || len(p.Stats) > 0 {
		t.Errorf("%+v", p)
	}
	p = parse(t, "DEV ID 0\n    Device Mem Info\n        Total Size   : 429")
	if len(p.GPUs) != 1 || p.GPUs[0].MemoryTotal != nil {
		t.Errorf("%+v", p)
	}
}

func TestDevicesOfOneBoardAreTwoAlthoughTheirSerialIsOne(t *testing.T) {
	rep := gpu.Combine(gpu.Enflame, parse(t, read(t, "table.txt")), parse(t, read(t, "table.txt")))
	if len(rep.Devices) != 3 || rep.Devices[1].Serial != rep.Devices[2].Serial {
		t.Errorf("%+v", rep.Devices)
	}
}

func TestAnErrorThatNamesACardIsThatCards(t *testing.T) {
	p := parse(t, "Error: open dev 3 timed out\nFailed to open 0000:2c:00.0\n")
	want := []gpu.Failure{
		{Index: new(3), Code: CodeCardFailed, Message: "Error: open dev 3 timed out"},
		{BusID: "0000:2c:00.0", Code: CodeCardFailed, Message: "Failed to open 0000:2c:00.0"},
	}
	if diff := cmp.Diff(want, p.Failures); diff != "" || p.CollectorError != nil {
		t.Errorf("%v (-want +got):\n%s", p.CollectorError, diff)
	}
}

func TestAnErrorBesideValuesIsNoDeadCard(t *testing.T) {
	p := parse(t, "DEV ID 0\n    Error: one counter failed\n    Temperature Info\n        GCU Temp : 40 ℃\n")
	if len(p.Failures) > 0 || *p.Stats[0].Temperature != 40 {
		t.Errorf("%+v", p)
	}
}

func TestAnErrorOfACardBesideTheRowsOfOthersIsNotLost(t *testing.T) {
	p := parse(t, "Error: failed to open device 7\n"+read(t, "table.txt"))
	if len(p.GPUs) == 0 || len(p.Failures) != 1 || *p.Failures[0].Index != 7 {
		t.Errorf("%+v", p)
	}
}

func TestOtherTextIsNotAForm(t *testing.T) {
	for _, out := range []string{
		"", "\n\n", "{}", "DEV\n", "DEV ID x\n", "*Dev\n0 1\n", "+---+\n", "| a | b | c |\n", "*a*\n", "| 0 x | y | z |\n",
		"| NVIDIA-SMI 550.54 | Driver Version: 1 |\n",
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
	f.Add([]byte("Error: no device"))
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
	whole := read(b, "query.txt")
	card := whole[strings.Index(whole, "DEV ID 0"):strings.Index(whole, "DEV ID 1")]
	var out strings.Builder
	for i := range 8 {
		one := strings.Replace(card, "DEV ID 0", fmt.Sprintf("DEV ID %d", i), 1)
		out.WriteString(strings.Replace(one, ": 2c", fmt.Sprintf(": 2%d", i), 1))
	}
	d := New(tool.NewReplay(said(query, 0, out.String())))
	b.ReportAllocs()
	for b.Loop() {
		rep, err := d.Collect(b.Context())
		if err != nil || len(rep.Devices) != 8 || rep.Devices[7].BusID != "0000:27:00.0" {
			b.Fatal(rep.Devices, err)
		}
	}
}
