package cambricon

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
	p, err := Parse([]string{"cnmon"}, 0, []byte(out))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const row = "| 1     /   MLU999-X1    v1.2.0 |         0000:1A:00.0 | 9%                0 |\n" +
	"|  0%   61C        240 W/ 250 W | 20000 MiB/ 20638 MiB | FULL          Default |\n"

func TestTableToleratesWhatOtherVersionsPrint(t *testing.T) {
	plain := parse(t, row)
	for _, c := range []struct{ name, out string }{
		{"no column of virtual functions", strings.Replace(row, " /   MLU", "     MLU", 1)},
		{"no fan", strings.Replace(row, " 0%   61C", " /    61C", 1)},
		{"a fan without a percent sign", strings.Replace(row, " 0%   61C", " 7    61C", 1)},
		{"more in the last cell", strings.Replace(row, "FULL", "FULL  New", 1)},
		{"lines around it", "note\n+----+\n" + row + "| note |\n"},
		{"carriage returns", strings.ReplaceAll(row, "\n", "\r\n")},
		{"printed twice in a loop", row + row},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(plain, parse(t, c.out)); diff != "" {
				t.Errorf("(-plain +got):\n%s", diff)
			}
		})
	}
}

func TestACutNumberIsNotTakenForAWhole(t *testing.T) {
	cut := row[:strings.LastIndex(row, "638 MiB")]
	p := parse(t, cut)
	if len(p.GPUs) != 1 || p.GPUs[0].MemoryTotal != nil {
		t.Errorf("%+v", p.GPUs)
	}
}

func TestAnExcerptWithoutNumbersHasPlacesForIndices(t *testing.T) {
	p := parse(t, "    Product Name                   : MLU999-X1\n    Firmware                       : v1.2.0\n")
	want := []gpu.Device{{
		Index: new(0), Vendor: gpu.Cambricon, Type: gpu.Cambricon, Model: "MLU999-X1", FirmwareVersion: "v1.2.0",
	}}
	if diff := cmp.Diff(want, p.GPUs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestALineWhoseCardIsUnknownTakesNoOthersIndex(t *testing.T) {
	second := row[strings.Index(row, "\n")+1:]
	p := parse(t, second+strings.Replace(row, "| 1 ", "| 0 ", 1))
	if len(p.GPUs) != 1 || *p.GPUs[0].Index != 0 || p.GPUs[0].BusID == "" {
		t.Errorf("%+v", p.GPUs)
	}
}

func TestAnAbsentCardThatWasAskedForIsItsFailure(t *testing.T) {
	p, err := Parse([]string{"cnmon", "info", "-c", "9"}, 1, []byte("Error: card 9 is not existed\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []gpu.Failure{{Index: new(9), Code: CodeNoSuchCard, Message: "Error: card 9 is not existed"}}
	if diff := cmp.Diff(want, p.Failures); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOtherTextIsNotAForm(t *testing.T) {
	for _, out := range []string{"", "\n\n", "cnmon: command not found\n", "{}", "| a | b | c |\n", "    Driver : v1\n"} {
		if p, err := Parse([]string{"cnmon"}, 1, []byte(out)); err == nil {
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
		p, err := Parse([]string{"cnmon"}, 0, out)
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
			if d.Card != nil && !strings.Contains(string(out), fmt.Sprint(*d.Card)) {
				t.Errorf("card %d is not in the text", *d.Card)
			}
		}
		if len(p.GPUs) > strings.Count(string(out), "\n")+1 {
			t.Errorf("%d cards in %d lines", len(p.GPUs), strings.Count(string(out), "\n")+1)
		}
	})
}

func BenchmarkCollectEightCards(b *testing.B) {
	raw, err := os.ReadFile("testdata/info.txt")
	if err != nil {
		b.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(raw), "Card 0\n")
	one, _, _ := strings.Cut(rest, "Card 2\n")
	out := head
	for i := range 8 {
		out += fmt.Sprintf("Card %d\n%s", i, strings.ReplaceAll(strings.ReplaceAll(one, "000009", fmt.Sprintf("00000%d", i)), ": b1", fmt.Sprintf(": b%d", i)))
	}
	d := New(tool.NewReplay(said("cnmon info", 0, out)))
	b.ReportAllocs()
	for b.Loop() {
		rep, err := d.Collect(b.Context())
		if err != nil || len(rep.Devices) != 8 {
			b.Fatal(len(rep.Devices), err)
		}
	}
}
