package kunlun

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
	const line = "0000:87:00.0 0 0 02K0 41 0 0 0 37250 9 9 9 9 9 9 0 16 900 8064 0 1.0 \"K209\" "
	p := parse(t, line+"0\n"+line+"1\n"+line+"0\n") // the third is another round's
	if len(p.GPUs) != 2 || *p.GPUs[0].Index != 0 || *p.GPUs[1].Index != 1 || p.GPUs[1].Minor != nil {
		t.Errorf("%+v", p.GPUs)
	}
}

// Whatever the word for "not measured", the other values keep their columns.
func TestAnAbsentWordTakesItsColumnOnly(t *testing.T) {
	for _, word := range []string{"NA", "N/A", "-", "--", "[Not Supported]"} {
		for value, gone := range map[string]string{
			"41C": " temp=41", "399W": " power=399", "400W": " limit=400", "97000MiB": " used=97000", "99%": " util=99",
		} {
			want := strings.Replace(corpus.Brief(parse(t, row)), gone, "", 1)
			if got := corpus.Brief(parse(t, strings.Replace(row, value, word, 1))); got != want {
				t.Errorf("%s for %s: %s", word, value, got)
			}
		}
	}
}

func TestOtherFormsSayWhatTheyPrintAndNoMore(t *testing.T) {
	for _, c := range []struct{ name, out, want string }{
		{
			"a row without the persistence mode", strings.Replace(row, "OAM           N/A", "OAM              ", 1),
			corpus.Brief(parse(t, row)),
		},
		{
			"a row whose values are errors", "|   3  P900 OAM  N/A   | 00000000:0A:00.0 N/A |  1 |\n" +
				"| ERR!  ERR! N/A   ERR! / ERR!  |  31058MiB / 98304MiB |     ERR!     Default |\n",
			"3: card 3 minor 3 model=P900 OAM bus=0000:0a:00.0 total=98304 used=31058 health=warning (ERR! in place of a value)",
		},
		{
			"a card that answers with errors only",
			"|   3  P900 OAM           N/A   | 00000000:0A:00.0 N/A |                 ERR! |\n" +
				"|ERR!  ERR! ERR!    ERR! / ERR! |    ERR! /       ERR! |    ERR!      Default |\n",
			"3: card 3 minor 3 model=P900 OAM bus=0000:0a:00.0 health=failed (ERR! in place of the values)\n" +
				"failure 3 0000:0a:00.0 telemetry_error: ERR! in place of the values",
		},
		{
			"-m of the first generations does not quote the model, and counts milliwatts",
			"0000:53:00.0 0 4 02K1 41 0 0 0 74210 9 9 9 9 9 9 0 63 28653 32768 94 1.0:2 R309 0 0 0 0 0 0 0 0 0 0\n",
			"4: card 4 minor 4 model=R309 bus=0000:53:00.0 serial=02K1 firmware=1.0:2 total=32768 used=28653 util=94 temp=41 power=74.21",
		},
		{
			"other headings of the old table", "| DevID | PCI Addr | Model | INODE | Temp(C) | Power(mW) | Memory |\n" +
				"| 2 | 0001:03:00.0 | R209 | /dev/xpu5 | 44 | 74000 | 7 / 13568 MB |\n",
			"2: card 2 minor 5 model=R209 bus=0001:03:00.0 total=13568 used=7 temp=44 power=74",
		},
		{
			"a list with serials", "XPU 0: P900 OAM (SN: 02K1) (UUID: GPU-0-1)\nXPU 2: P900 PCIe (UUID: XPU-0-2)\n",
			"0: card 0 minor 0 model=P900 OAM uuid=GPU-0-1 serial=02K1\n2: card 2 minor 2 model=P900 PCIe uuid=XPU-0-2",
		},
		{
			"a lost card is no card of the list", "XPU 0: P900 OAM (UUID: GPU-0-1)\nXPU 1: Unable to get the handle\n",
			"0: card 0 minor 0 model=P900 OAM uuid=GPU-0-1\nfailure 1 card_query_failed: XPU 1: Unable to get the handle",
		},
		{
			"an error beside the table names a card by its address", row + "Unable to determine the device handle for XPU 0000:0B:00.0: XPU is lost.\n",
			corpus.Brief(parse(t, row)) + "\nfailure 0000:0b:00.0 card_query_failed: " +
				"Unable to determine the device handle for XPU 0000:0B:00.0: XPU is lost.",
		},
		{
			"a loop over a card whose memory is its virtual function's", strings.Repeat(strings.Replace(row, "Disabled", "Enabled ", 1)+
				strings.NewReplacer("|   1  P900 OAM", "|   2  P900 VF ", "0A:00.0", "0A:00.1", "Disabled", "N/A     ").Replace(row), 2),
			"1: card 1 minor 1 model=P900 OAM bus=0000:0a:00.0 total=98304 used=97000 util=99 temp=41 power=399 limit=400 (" + physicalFunction + ")\n" +
				"2: card 2 minor 2 model=P900 VF bus=0000:0a:00.1 total=98304 used=97000 util=99 temp=41 power=399 limit=400",
		},
		{
			"a loop over the list", strings.Repeat("XPU 0: 00000000:21:00.0\nXPU 1: 00000000:22:00.0\n", 2),
			"0: card 0 minor 0 bus=0000:21:00.0\n1: card 1 minor 1 bus=0000:22:00.0",
		},
		{"no card", "No devices were found\n", ""},
		{
			"no driver", "Failed to initialize XPUML: Driver Not Loaded\n",
			"error driver_not_loaded: Failed to initialize XPUML: Driver Not Loaded",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, corpus.Brief(parse(t, c.out))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
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
			if *d.Index != i && !strings.Contains(text.Clean(out), fmt.Sprint(*d.Index)) {
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
