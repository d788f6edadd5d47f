package ascend

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/corpus"
	"github.com/heteroflow/node-agent/gpu/tool"
)

func parse(t *testing.T, out string) gpu.Parsed {
	t.Helper()
	p, err := Parse([]string{"npu-smi", "info"}, 0, []byte(out))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTableToleratesWhatOtherVersionsPrint(t *testing.T) {
	const header = "| NPU   Name | Health | Power(W) Temp(C) Hugepages-Usage(page) |\n" +
		"| Chip | Bus-Id | AICore(%) Memory-Usage(MB) HBM-Usage(MB) |\n"
	const row = "| 0 910B9 | OK | 91.5 41 0 / 0 |\n| 0 | 0000:C3:00.0 | 7 0 / 0 3411 / 65536 |\n"
	plain := parse(t, header+row)
	for _, c := range []struct{ name, out string }{
		{"a column more", "| NPU   Name | Health | Fan(%) Power(W) Temp(C) Hugepages-Usage(page) |\n" +
			"| Chip | Bus-Id | AICore(%) AIVector(%) Memory-Usage(MB) HBM-Usage(MB) |\n" +
			"| 0 910B9 | OK | 55 91.5 41 0 / 0 |\n| 0 | 0000:C3:00.0 | 7 3 0 / 0 3411 / 65536 |\n"},
		{"a line more", header + "| note |\n" + row},
		{"carriage returns", strings.ReplaceAll(header+row, "\n", "\r\n")},
		{"box drawing", strings.ReplaceAll(header+row, "|", "│")},
		{"printed twice in a loop", header + row + header + row},
		{"glued pairs", header + strings.ReplaceAll(row, " / ", "/")},
		{"no header", row},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(plain, parse(t, c.out)); diff != "" {
				t.Errorf("(-plain +got):\n%s", diff)
			}
		})
	}
}

func TestHalfARowIsAFailureOnlyInTheMiddle(t *testing.T) {
	full := "| 0 910B9 | OK | 91.5 41 0 / 0 |\n| 0 | 0000:C3:00.0 | 7 0 / 0 3411 / 65536 |\n"
	for _, c := range []struct {
		name, out string
		devices   int
		failed    []int
	}{
		{"the lower line is missing", "| 2 910B9 | OK | 91.5 41 0 / 0 |\n" + full, 2, []int{0}},
		{"the upper line is missing", full + "| 0 | 0000:C4:00.0 | 7 0 / 0 3411 / 65536 |\n", 2, []int{1}},
		{"the text begins with a lower line", "| 0 | 0000:C4:00.0 | 7 0 / 0 3411 / 65536 |\n" + full, 2, nil},
		{"the text ends after an upper line", full + "| 2 910B9 | OK | 91.5 41 0 / 0 |\n", 2, nil},
		{"rows were left out", "| 2 910B9 | OK | 91.5 41 0 / 0 |\n...\n" + full, 2, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := parse(t, c.out)
			var failed []int
			for _, f := range p.Failures {
				failed = append(failed, *f.Index)
			}
			if len(p.GPUs) != c.devices {
				t.Errorf("%d devices, want %d", len(p.GPUs), c.devices)
			}
			if diff := cmp.Diff(c.failed, failed); diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever the word for "not measured", the other values keep their columns.
func TestAnAbsentWordTakesItsColumnOnly(t *testing.T) {
	for _, word := range []string{"NA", "N/A", "-", "--", "ERR!", "[Not Supported]"} {
		p := parse(t, "| 0 910B9 | OK | "+word+" 41 "+word+" / 0 |\n| 0 | 0000:C3:00.0 | "+word+" 0 / 0 "+word+" / 65536 |\n")
		const want = "0: card 0 chip 0 model=910B9 bus=0000:c3:00.0 total=65536 temp=41 health=ok"
		if got := corpus.Brief(p); got != want {
			t.Errorf("%s: %s", word, got)
		}
	}
}

func TestTheLowerLineOfASoCIsNoCard(t *testing.T) {
	const upper, lower = "| 0 310B9 | OK | 7.6 42 15 / 1304 |\n", "| 0 0 | NA | 3 1003 / 10810 |\n"
	for out, want := range map[string]string{
		upper + lower: "0: card 0 chip 0 model=310B9 total=10810 used=1003 util=3 temp=42 power=7.6 health=ok",
		lower:         "0: chip 0 total=10810 used=1003 util=3",
	} {
		header := "| NPU Name | Health | Power(W) Temp(C) Hugepages-Usage(page) |\n| Chip Device | Bus-Id | AICore(%) Memory-Usage(MB) |\n"
		p := parse(t, header+out)
		p.Failures = nil
		if got := corpus.Brief(p); got != want {
			t.Errorf("%s: %s", out, got)
		}
	}
}

func TestACutNumberIsNotTakenForAWhole(t *testing.T) {
	p := parse(t, "| 0 910B9 | OK | 91.5 41 0 / 0 |\n| 0 | 0000:C3:00.0 | 7 0 / 0 3411 / 655")
	if p.GPUs[0].MemoryTotal != nil {
		t.Errorf("memory total %d", *p.GPUs[0].MemoryTotal)
	}
	if u := p.Stats[0].Utilization; u != nil && *u != 7 {
		t.Errorf("utilization %v", *u)
	}
}

// testdata are the outputs there, by the names of their files.
func testdata(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no testdata", err)
	}
	outputs := make(map[string][]byte)
	for _, file := range files {
		if outputs[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return outputs
}

// A text that ends after any of its lines says less than the whole, and nothing
// else: no other devices, and of those no other memory, address or failure.
func TestATextCutAfterAnyLineSaysNothingElse(t *testing.T) {
	for file, raw := range testdata(t) {
		whole := parse(t, string(raw))
		lines := strings.SplitAfter(string(raw), "\n")
		for i := range lines {
			p, err := Parse([]string{"npu-smi"}, 0, []byte(strings.Join(lines[:i], "")))
			if err != nil {
				continue // nothing to see yet
			}
			if len(p.GPUs) > len(whole.GPUs) || len(p.Failures) > len(whole.Failures) || p.CollectorError != nil {
				t.Fatalf("%s up to line %d: %+v", file, i, p)
			}
			for at, d := range p.GPUs {
				w := whole.GPUs[at]
				if !equal(d.Card, w.Card) || d.BusID != "" && d.BusID != w.BusID ||
					d.MemoryTotal != nil && (w.MemoryTotal == nil || *d.MemoryTotal != *w.MemoryTotal) {
					t.Errorf("%s up to line %d: %+v, in the whole %+v", file, i, d, w)
				}
			}
		}
	}
}

// The rounds of a loop are one list of cards, where the text names them.
func TestWhatIsPrintedTwiceIsListedOnce(t *testing.T) {
	for file, raw := range testdata(t) {
		once := parse(t, string(raw))
		if len(once.GPUs) > 0 && once.GPUs[0].Card == nil {
			continue
		}
		twice := parse(t, string(raw)+"\n"+string(raw))
		if diff := cmp.Diff(once.GPUs, twice.GPUs); diff != "" {
			t.Errorf("%s (-once +twice):\n%s", file, diff)
		}
		if diff := cmp.Diff(once.Topology, twice.Topology); diff != "" {
			t.Errorf("%s (-once +twice):\n%s", file, diff)
		}
	}
}

func TestOneDieListedTwiceIsReported(t *testing.T) {
	p := parse(t, "| NPU Name | Health | Power(W) Temp(C) Hugepages-Usage(page) |\n"+
		"| Chip Phy-ID | Bus-Id | AICore(%) Memory-Usage(MB) HBM-Usage(MB) |\n"+
		"| 0 A | OK | 150 32 0 / 0 |\n| 0 4 | 0000:9D:00.0 | 0 0 / 0 3130 / 65536 |\n"+
		"| 0 A | OK | - 32 0 / 0 |\n| 1 4 | 0000:9D:00.0 | 0 0 / 0 3130 / 65536 |\n")
	if len(p.GPUs) != 2 || len(p.Failures) != 1 || *p.Failures[0].Index != 1 || p.Failures[0].Code != CodeDuplicate {
		t.Errorf("%+v", p.Failures)
	}
}

func TestAChipWithoutANameIsListed(t *testing.T) {
	p := parse(t, "| 3 | Alarm | 91.5 41 0 / 0 |\n| 0 | 0000:C3:00.0 | 7 0 / 0 3411 / 65536 |\n")
	if len(p.GPUs) != 1 || *p.GPUs[0].Card != 3 || p.GPUs[0].BusID != "0000:c3:00.0" || len(p.Failures) != 1 {
		t.Errorf("%+v", p)
	}
}

func TestAChipOfWhichNothingWasReadHasNoMeasurements(t *testing.T) {
	for health, want := range map[string]string{
		"OK": "0: card 1 chip 0 model=910B9 bus=0000:c2:00.0 (printed as OK without memory and temperature)\n" +
			"failure 0 0000:c2:00.0 no_reading: npu-smi printed OK but memory 0 and temperature 0: nothing could be read from the chip",
		"UNKNOWN": "0: card 1 chip 0 model=910B9 bus=0000:c2:00.0 health=failed (UNKNOWN)\n" +
			"failure 0 0000:c2:00.0 health_unknown: health UNKNOWN",
	} {
		p := parse(t, "| 1     910B9    | "+health+" | 0.0     0      0    / 0             |\n"+
			"| 0              | 0000:C2:00.0  | 0           0    / 0          0    / 0             |\n")
		if diff := cmp.Diff(want, corpus.Brief(p)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestTheBusTellsTheCardsInEachFormOfLspci(t *testing.T) {
	const want = "0: bus=0000:c1:00.0"
	for _, out := range []string{
		"c1:00.0 Processing accelerators: Huawei Technologies Co., Ltd. Device d802 (rev 20)",
		"0000:c1:00.0 Processing accelerators [1200]: Huawei Technologies Co., Ltd. Device [19e5:d802] (rev 20)",
		"0000:c1:00.0 1200: 19e5:d802 (rev 20)\n0000:c1:00.1 1200: 19e5:d805 (rev 20)\n0000:01:00.0 0300: 19e5:1711 (rev 01)",
	} {
		if got := corpus.Brief(parse(t, out)); got != want {
			t.Errorf("%s: %s", out, got)
		}
	}
}

func TestAnEmptyNodeIsNoError(t *testing.T) {
	if p := parse(t, "There is no NPU card on this server.\n"); len(p.GPUs) > 0 || p.CollectorError != nil {
		t.Errorf("%+v", p)
	}
}

func TestOtherTextIsNotAForm(t *testing.T) {
	for _, out := range []string{"", "\n\n", "bash: npu-smi: command not found\n", "{}", "| a | b | c |\n"} {
		if p, err := Parse([]string{"npu-smi", "info"}, 1, []byte(out)); err == nil {
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
	f.Add([]byte("dcmi module initialize failed. ret is -8005"))
	f.Add([]byte("3d:00.0 Processing accelerators: Huawei Technologies Co., Ltd. Device d801 (rev 20)"))
	f.Fuzz(func(t *testing.T, out []byte) {
		p, err := Parse([]string{"npu-smi", "info"}, 0, out)
		if err != nil {
			return
		}
		if len(p.Stats) > len(p.GPUs) {
			t.Errorf("%d rows of measurements for %d devices", len(p.Stats), len(p.GPUs))
		}
		for i, d := range p.GPUs {
			if d.Index == nil || *d.Index != i {
				t.Errorf("device %d has index %v", i, d.Index)
			}
			if d.Card != nil && !strings.Contains(string(out), fmt.Sprint(*d.Card)) {
				t.Errorf("card %d is not in the text", *d.Card)
			}
		}
		if len(p.GPUs) > strings.Count(string(out), "\n")+1 {
			t.Errorf("%d devices in %d lines", len(p.GPUs), strings.Count(string(out), "\n")+1)
		}
	})
}

func BenchmarkCollectEightCards(b *testing.B) {
	var out strings.Builder
	out.WriteString("| npu-smi 24.1.1  Version: 24.1.1 |\n| NPU   Name | Health | Power(W) Temp(C) Hugepages-Usage(page) |\n" +
		"| Chip | Bus-Id | AICore(%) Memory-Usage(MB) HBM-Usage(MB) |\n+---+---+---+\n")
	for i := range 8 {
		fmt.Fprintf(&out, "| %d     910B9               | OK            | 91.5        41                0    / 0             |\n"+
			"| 0                         | 0000:C%d:00.0  | 0           0    / 0          60411/ 65536         |\n"+
			"+===========================+===============+====================================================+\n", i, i)
	}
	d := New(tool.NewReplay(said("npu-smi info", 0, out.String())), "")
	b.ReportAllocs()
	for b.Loop() {
		rep, err := d.Collect(b.Context())
		if err != nil || len(rep.Devices) != 8 {
			b.Fatal(len(rep.Devices), err)
		}
	}
}
