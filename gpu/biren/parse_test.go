package biren

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/gpu/text"
)

func TestRowsWithoutColumnNamesAreNotGuessedAt(t *testing.T) {
	p, err := Parse([]string{toolName, "gpu"}, 0, []byte("0, 11, 32501\n"))
	if err != nil || len(p.GPUs) > 0 || p.CollectorError == nil || p.CollectorError.Code != CodeNoFields {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestTheCommandIsFoundInWhatPeopleType(t *testing.T) {
	argv := text.SplitCommand("sudo /usr/bin/brsmi gpu --query-gpu serial,index --format=csv,noheader")
	p, err := Parse(argv, 0, []byte("S1, 7\nS2, x\n"))
	if err != nil || len(p.GPUs) != 1 || *p.GPUs[0].Index != 7 || p.GPUs[0].Serial != "S1" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestValuesInAnotherUnitAreAbsent(t *testing.T) {
	p, err := Parse(nil, 0, []byte("index, memory.total, memory.used, power.draw, utilization.gpu\n0, 34091302912, 34091302912, 80500, 101\n"))
	if err != nil || len(p.GPUs) != 1 || len(p.Stats) > 0 || p.GPUs[0].MemoryTotal != nil {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestOtherTextIsNotAForm(t *testing.T) {
	for _, out := range []string{"", "\n\n", "{}", "name\n", "+---+\n", "| 0 | Biren106B |\n", "BR-SMI 1.11.0 Driver Version: 1.11.0\n"} {
		if p, err := Parse([]string{toolName}, 0, []byte(out)); err == nil {
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
	argv := text.SplitCommand(ask(fields))
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
			if !strings.Contains(text.Clean(out), fmt.Sprint(*d.Index)) || seen[*d.Index] {
				t.Errorf("card %d is not in the text, or twice", *d.Index)
			}
			seen[*d.Index] = true
		}
	})
}
