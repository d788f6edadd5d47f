package cambricon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/corpus"
	"github.com/heteroflow/node-agent/gpu/text"
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

func TestOtherFormsSayWhatTheyPrintAndNoMore(t *testing.T) {
	const first = "1: card 1 minor 1 model=MLU999-X1 bus=0000:1a:00.0"
	for _, c := range []struct{ name, command, out, want string }{
		{
			"a firmware that is not known hides no card", "cnmon", strings.Replace(row, "v1.2.0", "N/A   ", 1),
			first + " total=20638 used=20000 util=9 temp=61 power=240 limit=250",
		},
		{
			"nor does one that is not printed", "cnmon", strings.Replace(row, "v1.2.0", "      ", 1),
			first + " total=20638 used=20000 util=9 temp=61 power=240 limit=250",
		},
		{
			"a card that cannot be read is listed", "cnmon", "| 1     /   MLU999-X1    v1.2.0 |         0000:1A:00.0 | N/A             N/A |\n" +
				"|  /    N/A        N/A / N/A |    N/A/ N/A          | FULL          Default |\n",
			first + " firmware=v1.2.0",
		},
		{
			"an error beside the table names a card that it lacks", "cnmon", row + "Error: card 3 is lost\n",
			first + " firmware=v1.2.0 total=20638 used=20000 util=9 temp=61 power=240 limit=250\n" +
				"failure 3 card_query_failed: Error: card 3 is lost",
		},
		{
			"an error in place of a card's values", "cnmon info",
			"Card 0\n    Product Name : MLU999-X1\nCard 1\nError: Get card 1 information failed\n",
			"0: card 0 minor 0 model=MLU999-X1\n1: card 1 minor 1\nfailure 1 card_query_failed: Error: Get card 1 information failed",
		},
		{
			"a card that was asked for and is not there", "cnmon info -c 9", "Error: the card is not existed\n",
			"failure 9 no_such_card: Error: the card is not existed",
		},
		{
			"and is named", "cnmon info -c 9", "Error: card 9 is not existed\n",
			"failure 9 no_such_card: Error: card 9 is not existed",
		},
		{
			"the values of the card that was asked for", "cnmon info -c 3", "Product Name : MLU999-X1\nTemperature :\n    Chip : 50 C\n",
			"3: card 3 minor 3 model=MLU999-X1 temp=50",
		},
		{
			"the memory of the host and of the chassis are not the card's", "cnmon info",
			"Card 0\n    Virtual Memory Usage :\n        Total : 1048576 MiB\n    Device System Memory Usage :\n        Used : 7 MiB\n" +
				"    Chassis :\n        SN : 77\n        Product Name : BOX\n    Power :\n        Usage : 38 W\n        Machine : 300 W\n",
			"0: card 0 minor 0 power=38",
		},
		{
			"the list", "cnmon -l", "Card 0: MLU999-X8 (UUID: 0-0-1)\nCard 4: MLU999-X4\n    UUID : 0-0-2\n",
			"0: card 0 minor 0 model=MLU999-X8 uuid=0-0-1\n4: card 4 minor 4 model=MLU999-X4 uuid=0-0-2",
		},
		{"no card", "cnmon", "There is no device.\n", ""},
		{"no driver", "cnmon", "No MLU driver, no device.\n", "error driver_not_loaded: No MLU driver, no device."},
		{
			"no driver, in the library's words", "cnmon", "Failed to initialize CNDEV: No cambricon driver is loaded\n",
			"error driver_not_loaded: Failed to initialize CNDEV: No cambricon driver is loaded",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Parse(strings.Fields(c.command), 0, []byte(c.out))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, corpus.Brief(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever the word for "not measured", the other values keep their columns.
func TestAnAbsentWordTakesItsColumnOnly(t *testing.T) {
	for _, word := range []string{"NA", "N/A", "-", "--", "ERR!", "[Not Supported]"} {
		for value, gone := range map[string]string{"61C": " temp=61", "240 W": " power=240", "250 W": " limit=250", "20000 MiB": " used=20000"} {
			want := strings.Replace(corpus.Brief(parse(t, row)), gone, "", 1)
			if got := corpus.Brief(parse(t, strings.Replace(row, value, word, 1))); got != want {
				t.Errorf("%s for %s: %s", word, value, got)
			}
		}
	}
}

func TestATopologyMayBeDrawn(t *testing.T) {
	p := parse(t, "+------+------+------+--------------+\n|      | MLU0 | MLU1 | CPU Affinity |\n+------+------+------+--------------+\n"+
		"| MLU0 | X    | MLK  | 0-31         |\n| MLU1 | MLK  | X    | 32-63        |\n")
	want := &gpu.Topology{
		Kind: "cambricon", Links: []gpu.Link{{A: 0, B: 1, Type: "MLK"}},
		NUMA: []gpu.Affinity{{Index: 0, CPUs: "0-31"}, {Index: 1, CPUs: "32-63"}},
	}
	if diff := cmp.Diff(want, p.Topology); diff != "" {
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
	f.Add([]byte(`{"CnmonInfo": [{"CardNum": 0, "ProductName": "MLU999-X1"}, {"CardNum": 1}]}`))
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
			if d.Card != nil && !strings.Contains(text.Clean(out), fmt.Sprint(*d.Card)) {
				t.Errorf("card %d is not in the text", *d.Card)
			}
		}
		if room := strings.Count(string(out), "\n") + strings.Count(string(out), "{") + 1; len(p.GPUs) > room {
			t.Errorf("%d cards in %d lines and objects", len(p.GPUs), room)
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
