package hygon

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
	p, err := Parse([]string{"hy-smi"}, 0, []byte(out))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTableToleratesWhatOtherVersionsPrint(t *testing.T) {
	plain := parse(t, twoCards)
	for _, c := range []struct{ name, out string }{
		{"a column more", "HCU Temp AvgPwr Perf Foo PwrCap VRAM% HCU% Mode\n" +
			"0 45.0C 121.0W auto x 700.0W 3% 0.0% Normal\n1 46.0C 122.0W auto y 700.0W 3% 88.0% MIG\n"},
		{"another order", "HCU Mode HCU% Temp AvgPwr PwrCap\n0 Normal 0.0% 45.0C 121.0W 700.0W\n1 MIG 88.0% 46.0C 122.0W 700.0W\n"},
		{"lines around it", "warning: deprecated\n" + twoCards + "note\n"},
		{"carriage returns", strings.ReplaceAll(twoCards, "\n", "\r\n")},
		{"printed twice in a loop", twoCards + twoCards},
		{"the older name", strings.ReplaceAll(twoCards, "HCU", "DCU")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(plain, parse(t, c.out)); diff != "" {
				t.Errorf("(-plain +got):\n%s", diff)
			}
		})
	}
}

func TestACutNumberIsNotTakenForAWhole(t *testing.T) {
	p := parse(t, "HCU Temp AvgPwr Perf PwrCap VRAM% HCU% Mode\n0 45.0C 121.0W auto 70")
	if s := p.Stats[0]; s.PowerLimit != nil || s.Temperature == nil || *s.Temperature != 45 {
		t.Errorf("%+v", s)
	}
}

func TestHardwareTableHasTheBusIDLast(t *testing.T) {
	p := parse(t, "HCU  DID   GFX RAS   SDMA RAS  VBIOS        BUS\n0    6210  ENABLED   DISABLED  6.3-X1       0000:1C:00.0\n")
	if len(p.GPUs) != 1 || p.GPUs[0].BusID != "0000:1c:00.0" || len(p.Stats) > 0 {
		t.Errorf("%+v", p)
	}
}

func TestPowerLimitAndPowerAreTwoKeys(t *testing.T) {
	p := parse(t, `{"card0": {"Max Graphics Package Power (W)": "700.0", "Average Graphics Package Power (W)": "99.0"}}`)
	if s := p.Stats[0]; *s.Power != 99 || *s.PowerLimit != 700 {
		t.Errorf("%v W of %v W", *s.Power, *s.PowerLimit)
	}
}

func TestOtherFormsSayWhatTheyPrintAndNoMore(t *testing.T) {
	for _, c := range []struct{ name, out, want string }{
		{
			"a card whose values are not there is listed", twoCards + "2 N/A N/A N/A N/A N/A N/A N/A\n",
			corpus.Brief(parse(t, twoCards)) + "\n2: card 2",
		},
		{
			"an error below the table names a card that it lacks", twoCards + "ERROR: HCU[3] : device lost\n",
			corpus.Brief(parse(t, twoCards)) + "\nfailure 3 tool_error: device lost",
		},
		{
			"an error about a card of the table is no failure of it", "ERROR: GPU[1] \t: Unable to get fan speed\n" + twoCards,
			corpus.Brief(parse(t, twoCards)),
		},
		{
			"an error before JSON", `Error: Dcu[2]: No DRM devices available` + "\n" + `{"card0": {"HCU use (%)": "3"}}`,
			"0: card 0 util=3\nfailure 2 no_drm_device: No DRM devices available",
		},
		{
			"a phrase in place of a value takes its column only", strings.Replace(twoCards, "121.0W", "[Not Supported]", 1),
			strings.Replace(corpus.Brief(parse(t, twoCards)), " power=121", "", 1),
		},
		{"the first column is GPU, the use is not", "GPU Temp AvgPwr VRAM% DCU%\n0 44.0c 20.0W 0% 7%\n", "0: card 0 util=7 temp=44 power=20"},
		{
			"what has no place here still tells that the card is there",
			"HCU[0]: RAS INFO\n  Block  Status  Correctable Error\n    UMC  ENABLED  0\n", "0: card 0",
		},
		{
			"an explained health word", "HCU[2]  : Bus Id : 0000:56:00.0   : Warning : ecc\n",
			"2: card 2 bus=0000:56:00.0 health=warning (Warning : ecc)",
		},
		{"the memory's temperature is not the card's", "HCU[0] : Temperature (Sensor mem) (C): 48.0\n", "0: card 0"},
		{
			"the tool's own fault", "Traceback (most recent call last):\n  File \"hy-smi\", line 9, in main\nIndexError: list index out of range\n",
			"error tool_error: IndexError: list index out of range",
		},
		{
			"a library that is not there", "hy-smi: error while loading shared libraries: libhsa.so: cannot open shared object file\n",
			"error library_missing: hy-smi: error while loading shared libraries: libhsa.so: cannot open shared object file",
		},
		{"no card", "WARNING: No AMD GPUs specified\n", ""},
		{
			"the use of the last second, where no other is printed",
			"HCU[0]\t\t: HCU util in last second : 91%\nHCU[0]\t\t: CU util in last second : 64%\n" +
				"HCU[1]\t\t: HCU use (%): 88.5\nHCU[1]\t\t: HCU util in last second : 91%\n",
			"0: card 0 util=91\n1: card 1 util=88.5",
		},
		{
			"AMD's heading above Hygon's columns", "=== ROCm System Management Interface ===\n" +
				"DCU  Temp   AvgPwr  Fan   Perf  PwrCap  VRAM%  DCU%\n0    46.0c  32.0W   0%    auto  300W    20%    84%\n",
			"0: card 0 util=84 temp=46 power=32 limit=300",
		},
		{
			"AMD's heading above cards that do not say whose they are",
			"=== ROCm System Management Interface ===\nGPU[0]\t\t: Temperature (Sensor edge) (C): 44.0\n", "0: card 0 temp=44",
		},
		{
			"processes in a table", "KFD process information:\nPID\tPROCESS NAME\tHCU(s)\tVRAM USED\tSDMA USED\tCU OCCUPANCY\t\n" +
				"24001\tpython3.10\t1\t3221225472\t0\t\t0\t\n24002\tUNKNOWN\t\t0\t0\t0\t0\t\n",
			"process 24001 python3.10 used=3072\nprocess 24002  used=0",
		},
		{
			"the driver above the cards of --showallinfo", "Driver Version: 6.9.1-V1.0\nHCU[0]\t\t: HCU use (%): 0\n",
			"0: card 0 driver=6.9.1-V1.0 util=0",
		},
		{
			"an error with the library's number", "ERROR: 2 HCU[1]\t\t: The device is lost\n" + "HCU[0]\t\t: HCU use (%): 0\n",
			"0: card 0 util=0\nfailure 1 tool_error: The device is lost",
		},
		{
			"a health word for the worst", "HCU[1]  : Bus Id : 0000:56:00.0   : Critical\n",
			"1: card 1 bus=0000:56:00.0 health=failed (Critical)\nfailure 1 0000:56:00.0 unhealthy: Critical",
		},
		{"an available size is neither use nor total", "device,Available memory size (MiB)\ncard0,65000\n", "0: card 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, corpus.Brief(parse(t, c.out))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNumaLinesAreReadWithAndWithoutAColon(t *testing.T) {
	for _, colon := range []string{":", "", "\t:"} {
		p := parse(t, "HCU[0]\t\t: (Topology) Numa Node"+colon+" 3\nHCU[0]\t\t: (Topology) Numa Affinity"+colon+" -1\n")
		want := &gpu.Topology{Kind: "hygon", NUMA: []gpu.Affinity{{Index: 0, Node: new(3)}}}
		if diff := cmp.Diff(want, p.Topology); diff != "" || len(p.GPUs) > 0 {
			t.Errorf("%q: %d cards (-want +got):\n%s", colon, len(p.GPUs), diff)
		}
	}
}

func TestOtherTextIsNotAForm(t *testing.T) {
	for _, out := range []string{
		"", "\n\n", "{}", "[1]", "{\"a\": 1}", "HCU\n0 1\n",
		"GPU  Temp  AvgPwr  VRAM%  GPU%\n0 44.0c 20.0W 0% 0%\n", // AMD's
		"======== ROCm System Management Interface ========\nGPU[0] : Card series: Instinct MI210\n",
	} {
		if p, err := Parse([]string{"hy-smi"}, 1, []byte(out)); err == nil {
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
	f.Add([]byte("Error: Dcu[0]: No DRM devices available, exiting."))
	f.Fuzz(func(t *testing.T, out []byte) {
		p, err := Parse([]string{"hy-smi"}, 0, out)
		if err != nil {
			return
		}
		if len(p.Stats) > len(p.GPUs) {
			t.Errorf("%d rows of measurements for %d cards", len(p.Stats), len(p.GPUs))
		}
		for i, d := range p.GPUs {
			if d.Index == nil || !strings.Contains(text.Clean(out), fmt.Sprint(*d.Index)) {
				t.Errorf("card %v is not in the text", d.Index)
			}
			if i > 0 && *p.GPUs[i-1].Index >= *d.Index {
				t.Errorf("card %d stands after card %d", *d.Index, *p.GPUs[i-1].Index)
			}
		}
	})
}

func BenchmarkCollectEightCards(b *testing.B) {
	var table, values strings.Builder
	table.WriteString("HCU     Temp     AvgPwr     Perf     PwrCap     VRAM%      HCU%      Dec%      Enc%      Mode\n")
	for i := range 8 {
		fmt.Fprintf(&table, "%d       40.0C    157.0W     high     800.0W     0%%         0.0%%      0.0%%      0.0%%      Normal\n", i)
		sep := map[bool]string{true: "{", false: ", "}[i == 0]
		fmt.Fprintf(&values, `%s"card%d": {"Device ID": "0x6210", "Card Series": "K900", "Card Vendor": "Chengdu Haiguang IC Design Co., Ltd.", `+
			`"Serial Number": "TRYY%d", "Unique ID": "719900000000000%d", "Average Graphics Package Power (W)": "77.0", `+
			`"Temperature (Sensor edge) (C)": "37.0", "Temperature (Sensor junction) (C)": "36.0", "Temperature (Sensor mem) (C)": "36.0", `+
			`"HCU use (%%)": "0", "vram Total Memory (MiB)": "65520", "vram Total Used Memory (MiB)": "2"}`, sep, i, i, i)
	}
	d := New(tool.NewReplay(said("hy-smi", 0, table.String()), said(valuesCommand, 0, values.String()+"}")))
	b.ReportAllocs()
	for b.Loop() {
		rep, err := d.Collect(b.Context())
		if err != nil || len(rep.Devices) != 8 || rep.Devices[7].Serial != "TRYY7" {
			b.Fatal(rep.Devices, err)
		}
	}
}
