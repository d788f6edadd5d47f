package kunlun

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// said is one recorded command.
func said(command string, exit int, stdout string) tool.Recorded {
	return tool.Recorded{Result: tool.Result{Argv: strings.Fields(command), ExitCode: exit, Stdout: []byte(stdout)}}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestInventoryJoinsWhatTheCommandsSay(t *testing.T) {
	r := tool.NewReplay(
		said("xpu_smi", 0, read(t, "table.txt")),
		said("xpu_smi -m", 0, strings.SplitAfter(read(t, "machine.txt"), "\n")[0]),
		said("xpu_smi -q", 0, strings.Split(read(t, "query.txt"), "XPU 00000000:0C")[0]),
		said("xpu_smi topo -m", 0, read(t, "topo.txt")),
	)
	rep, err := New(r).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	total := new(int64(98304) << 20)
	const uuid = "GPU-00000000-0000-0000-0000-00000000000a"
	device := gpu.Device{
		Index: new(0), Card: new(0), Minor: new(0), UUID: uuid, Vendor: gpu.Kunlun, Type: gpu.Kunlun, Model: "P900 OAM",
		BusID: "0000:0a:00.0", MemoryTotal: total, DriverVersion: "5.0.22.10", FirmwareVersion: "1.0:2.6",
		Serial: "02K0YY0000D0000Y",
	}
	if diff := cmp.Diff(device, rep.Devices[0]); diff != "" {
		t.Errorf("device (-want +got):\n%s", diff)
	}
	stats := gpu.Stats{
		Index: new(0), UUID: uuid, Temperature: new(41.0), Utilization: new(100.0), Power: new(399.0),
		PowerLimit: new(400.0), MemoryUsed: new(int64(97000) << 20), MemoryTotal: total,
	}
	if diff := cmp.Diff(stats, rep.Stats[0]); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	if len(rep.Devices) != 3 || rep.Topology == nil || rep.DriverVersion != "5.0.22.10" {
		t.Errorf("%d devices, topology %v, driver %q", len(rep.Devices), rep.Topology, rep.DriverVersion)
	}
}

func TestARoundCostsOneCommandAndASecondOnlyForOldTables(t *testing.T) {
	for _, c := range []struct {
		name, table string
		asked       int
	}{
		{"the newer table has everything", read(t, "table.txt"), 1},
		{"an old table without temperatures", "| DevID |   PCI Addr   | Model | UseRate | Memory |\n" +
			"|     1 | 0000:87:00.0 | K209  |    12 % | 9 / 8064 MB |\n", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			machine := strings.SplitAfter(read(t, "machine.txt"), "\n")[1]
			r := tool.NewReplay(said("xpu_smi", 0, c.table), said("xpu_smi -m", 0, machine))
			rep, err := New(r).Collect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if asked := 2 - len(r.Unasked()); asked != c.asked {
				t.Errorf("%d commands, want %d", asked, c.asked)
			}
			if rep.Stats[0].Temperature == nil || rep.Stats[0].Power == nil {
				t.Errorf("%+v", rep.Stats[0])
			}
		})
	}
}

func TestWhoseXpuSmiItIsDecidesWhatItPrints(t *testing.T) {
	for _, c := range []struct {
		name, path, out string
		cards           int
		other           bool
	}{
		{"Intel's", "/usr/bin/xpu-smi", "|   0  Intel(R) Arc(TM) B580   Off | 0000:03:00.0 Off | Disabled |\n", 0, true},
		{"Intel's, failing", "/usr/bin/xpu-smi", "Error: Level Zero Initialization Error\n", 0, true},
		{"unknown words of a tool in a common directory", "/usr/bin/xpu-smi", "Error: no\n", 0, true},
		{"Kunlunxin's", "/usr/bin/xpu-smi", read(t, "table.txt"), 3, false},
		{"Kunlunxin's, failing", "/usr/local/xpu/bin/xpu-smi", "Error: no\n", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep, err := New(tool.NewReplay(said(c.path, 1, c.out))).Collect(t.Context())
			if errors.Is(err, tool.ErrNotInstalled) != c.other {
				t.Errorf("error %v", err)
			}
			if len(rep.Devices) != c.cards {
				t.Errorf("%d cards, want %d", len(rep.Devices), c.cards)
			}
			if !c.other && c.cards == 0 && rep.CollectorError == nil {
				t.Error("the failing tool is no collector error")
			}
		})
	}
}

func TestNotInstalledIsNotThisVendor(t *testing.T) {
	d := New(tool.NewReplay())
	for name, round := range map[string]func() error{
		"Inventory": func() error { _, err := d.Inventory(t.Context()); return err },
		"Collect":   func() error { _, err := d.Collect(t.Context()); return err },
	} {
		if err := round(); !errors.Is(err, tool.ErrNotInstalled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestErrorsAreCollectorErrorsUnlessAnotherFormAnswers(t *testing.T) {
	machine := said("xpu_smi -m", 0, read(t, "machine.txt"))
	for _, c := range []struct {
		name, out, code string
		exit            int
	}{
		{"library not found", "xpu_smi: error while loading shared libraries: libxpuml.so: cannot open\n", CodeLibrary, 127},
		{"no permission", "open /dev/xpuctrl: Permission denied\n", CodePermission, 1},
		{"nothing printed", "", gpu.CodeNoOutput, 1},
		{"unknown words", "core dumped\n", gpu.CodeExitStatus, 134},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep, err := New(tool.NewReplay(said("xpu_smi", c.exit, c.out))).Collect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if rep.CollectorError == nil || rep.CollectorError.Code != c.code || len(rep.Devices) > 0 {
				t.Errorf("collector error %v, want %s", rep.CollectorError, c.code)
			}
			rep, err = New(tool.NewReplay(said("xpu_smi", c.exit, c.out), machine)).Collect(t.Context())
			if err != nil || rep.CollectorError != nil || len(rep.Devices) != 2 {
				t.Errorf("with -m: %d cards, collector error %v, %v", len(rep.Devices), rep.CollectorError, err)
			}
		})
	}
}

func TestALostCardIsAFailureBesideTheOthers(t *testing.T) {
	r := tool.NewReplay(said("xpu_smi", 1, "Unable to query XPU 00000000:0D:00.0: unknown error\n"+read(t, "table.txt")))
	rep, err := New(r).Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Devices) != 3 || len(rep.Failures) != 1 || rep.Failures[0].BusID != "0000:0d:00.0" {
		t.Errorf("%d devices, failures %+v", len(rep.Devices), rep.Failures)
	}
}

func TestAHungDriverEndsTheRound(t *testing.T) {
	r := tool.NewReplay(said("xpu_smi", 0, read(t, "table.txt")),
		tool.Recorded{Error: "hung", Result: tool.Result{Argv: []string{"xpu_smi", "-q"}}})
	_, err := New(r).Inventory(t.Context())
	if _, ok := errors.AsType[*tool.HungError](err); !ok {
		t.Errorf("error %v, want a HungError", err)
	}
}
