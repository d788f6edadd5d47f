package iluvatar

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

const oneCard = `|  IX-ML: 4.4.0            Driver Version: 4.4.0          CUDA Version: 10.2     |
| GPU  Name                        | Bus-Id               | Clock-SM  Clock-Mem  |
| Fan  Temp  Perf    Pwr:Usage/Cap |      Memory-Usage    | GPU-Util  Compute M. |
| 0    Iluvatar MR-V100            | 00000000:35:00.0     | 500MHz    1600MHz    |
| N/A  37C   P0       40W / 150W   | 68MiB / 32768MiB     | 3%        Default    |
`

func TestTableToleratesWhatOtherVersionsPrint(t *testing.T) {
	plain := parse(t, oneCard)
	for _, c := range []struct{ name, out string }{
		{"a column more", `|  IX-ML: 4.9.0   Driver Version: 4.4.0   CUDA Version: 10.2 |
| GPU  Name                        | Bus-Id               | New  | Clock-SM  Clock-Mem  |
| Fan  Temp  Perf    Pwr:Usage/Cap |      Memory-Usage    | 5%   | GPU-Util  Compute M. |
| 0    Iluvatar MR-V100            | 00000000:35:00.0     | 6%   | 500MHz    1600MHz    |
| N/A  37C   P0       40W / 150W   | 68MiB / 32768MiB     | 7%   | 3%        Default    |
`},
		{"a fan", strings.Replace(oneCard, "| N/A  37C", "| 30%  37C", 1)},
		{"wide values that lose blanks", strings.Replace(oneCard, "40W / 150W   |", "40W/150W|", 1)},
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
	p := parse(t, oneCard[:strings.Index(oneCard, "40W / 150W")+len("40W / 1")])
	if len(p.GPUs) != 1 || len(p.Stats) > 0 {
		t.Errorf("%+v", p)
	}
}

func TestAHungCardIsAFailureAndItsNumbersAreNotMeasurements(t *testing.T) {
	p := parse(t, read(t, "table.txt"))
	want := []gpu.Failure{{Index: new(2), BusID: "0000:23:00.0", Code: CodeHung, Message: "the card does not answer: it reads 65535W"}}
	if diff := cmp.Diff(want, p.Failures); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := p.Stats[2]; s.Power != nil || s.Temperature != nil || s.Utilization != nil || s.Health != gpu.HealthFailed {
		t.Errorf("%+v", s)
	}
}

func TestAnErrorOfACardBesideTheRowsOfOthersIsNotLost(t *testing.T) {
	const line = "Unable to determine the device handle for GPU 00000000:36:00.0: Unknown Error"
	p := parse(t, line+"\n"+oneCard)
	want := []gpu.Failure{{BusID: "0000:36:00.0", Code: CodeCardFailed, Message: line}}
	if diff := cmp.Diff(want, p.Failures); diff != "" || len(p.GPUs) != 1 {
		t.Errorf("%d cards (-want +got):\n%s", len(p.GPUs), diff)
	}
	if p := parse(t, "Unable to get the fan of GPU 00000000:35:00.0\n"+oneCard); len(p.Failures) > 0 {
		t.Errorf("one value of a card that is listed: %+v", p.Failures)
	}
}

func TestAnErrorThatNamesACardIsThatCards(t *testing.T) {
	p := parse(t, "Unable to determine the device handle for GPU 0000:21:00.0: Unknown Error\nFailed to reset GPU 3\n")
	want := []gpu.Failure{
		{BusID: "0000:21:00.0", Code: CodeCardFailed, Message: "Unable to determine the device handle for GPU 0000:21:00.0: Unknown Error"},
		{Index: new(3), Code: CodeCardFailed, Message: "Failed to reset GPU 3"},
	}
	if diff := cmp.Diff(want, p.Failures); diff != "" || p.CollectorError != nil {
		t.Errorf("%v (-want +got):\n%s", p.CollectorError, diff)
	}
}

func TestWithoutAHeaderAnErrorIsNoRow(t *testing.T) {
	for _, c := range []struct{ command, out string }{
		{"ixsmi --query-gpu=name --format=csv,noheader", "something happened\n"},
		{"ixsmi --query-gpu=index,name --format=csv,noheader", "something, happened\n"},
		{"ixsmi --query-gpu=index --format=csv", "index\nsomething happened\n"},
	} {
		p, err := Parse(text.SplitCommand(c.command), 0, []byte(c.out))
		if len(p.GPUs) > 0 {
			t.Errorf("%s: %+v, %v", c.command, p, err)
		}
	}
}

func TestACardThatIsOnlyNamedIsACard(t *testing.T) {
	p, err := Parse(text.SplitCommand("ixsmi --query-gpu=name --format=csv,noheader"), 0, []byte("Iluvatar MR-V100 DUO\nIluvatar MR-V100 DUO\n"))
	if err != nil || len(p.GPUs) != 2 || p.GPUs[1].Model != "Iluvatar MR-V100 DUO" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestAnAnswerOfAResetTellsOfNoCard(t *testing.T) {
	if p := parse(t, "GPU 00000000:21:00.0  was successfully reset.\nAll done.\n"); len(p.GPUs)+len(p.Failures) > 0 || p.CollectorError != nil {
		t.Errorf("%+v", p)
	}
}

func TestOtherTextIsNotAForm(t *testing.T) {
	for _, out := range []string{
		"", "\n\n", "{}", "<a/>", "<nvidia_smi_log></nvidia_smi_log>", "GPU\n", "a.b, c.d\n", "+---+\n", "| a | b | c |\n",
		"| NVIDIA-SMI 550.54 | Driver Version: 1 |\n",
		"15:00.0 3D controller [0302]: NVIDIA [10de:20b0]\n",
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
	f.Add([]byte("No device supported for ixlink"))
	argv := text.SplitCommand("ixsmi --query-gpu=index,memory.total --format=csv,noheader")
	f.Fuzz(func(t *testing.T, out []byte) {
		p, err := Parse(argv, 0, out)
		if err != nil {
			return
		}
		if len(p.Stats) > len(p.GPUs) {
			t.Errorf("%d rows of measurements for %d cards", len(p.Stats), len(p.GPUs))
		}
		seen := map[int]bool{}
		for _, d := range p.GPUs {
			if d.Index == nil { // lspci
				continue
			}
			printed := strings.Contains(text.Clean(out), fmt.Sprint(*d.Index)) || *d.Index < strings.Count(string(out), "\n")+strings.Count(string(out), "<gpu")+1
			if !printed || seen[*d.Index] {
				t.Errorf("card %d is not in the text, or twice", *d.Index)
			}
			seen[*d.Index] = true
		}
	})
}

func BenchmarkCollectEightCards(b *testing.B) {
	whole := read(b, "xml.txt")
	start, end := strings.Index(whole, "\t<gpu id"), strings.Index(whole, "\t</gpu>\n")+len("\t</gpu>\n")
	var out strings.Builder
	out.WriteString(whole[:start])
	for i := range 8 {
		card := strings.ReplaceAll(whole[start:end], ":21:00.0", fmt.Sprintf(":2%d:00.0", i))
		out.WriteString(strings.ReplaceAll(card, "00000000000a", fmt.Sprintf("00000000000%d", i)))
	}
	out.WriteString("</ixsmi_log>\n")
	d := New(tool.NewReplay(said("ixsmi -q -x", 0, out.String())))
	b.ReportAllocs()
	for b.Loop() {
		rep, err := d.Collect(b.Context())
		if err != nil || len(rep.Devices) != 8 || rep.Devices[7].BusID != "0000:27:00.0" {
			b.Fatal(rep.Devices, err)
		}
	}
}
