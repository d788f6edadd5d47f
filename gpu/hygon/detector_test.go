package hygon

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

const valuesCommand = "hy-smi --showid --showproductname --showmeminfo vram --showuse --showtemp --showpower " +
	"--showuniqueid --showserial --json"

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

const twoCards = "HCU Temp AvgPwr Perf PwrCap VRAM% HCU% Mode\n" +
	"0 45.0C 121.0W auto 700.0W 3% 0.0% Normal\n1 46.0C 122.0W auto 700.0W 3% 88.0% MIG\n"

const twoValues = `{"card0": {"Card Series": "K900", "Unique ID": "A0", "vram Total Memory (MiB)": "65520", "vram Total Used Memory (MiB)": "2", "HCU use (%)": "0"},
 "card1": {"Card Series": "K900", "Unique ID": "A1", "vram Total Memory (MiB)": "65520"}}`

func TestInventoryJoinsWhatTheCommandsSay(t *testing.T) {
	r := tool.NewReplay(
		said("hy-smi", 0, twoCards),
		said(valuesCommand, 0, twoValues),
		said("hy-smi --showbus --json", 0, `{"card0": {"PCI Bus": "0000:09:00.0 --> SN: 1"}, "card1": {"PCI Bus": "0000:36:00.0 --> SN: 1"}}`),
		said("hy-smi --showtopo", 0, read(t, "topo.txt")),
		said("hy-smi --healthcheck", 0, "HCU[1] : Bus Id : 0000:36:00.0 : Unhealthy\n"),
		said("hy-smi --showdriverversion", 0, "\nDriver Version: 6.3.40-V1.6.0\n"),
		said("hy-smi virtual -show-device-info", 0, read(t, "virtual.txt")),
	)
	rep, err := New(r).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const driver = "6.3.40-V1.6.0"
	total := new(int64(65520) << 20)
	want := gpu.Report{
		Vendor: gpu.Hygon, DriverVersion: driver,
		Devices: []gpu.Device{
			{
				Index: new(0), Card: new(0), UUID: "A0", Vendor: gpu.Hygon, Type: gpu.Hygon, Model: "K900",
				BusID: "0000:09:00.0", MemoryTotal: total, DriverVersion: driver, MIGMode: "disabled",
			},
			{
				Index: new(1), Card: new(1), UUID: "A1", Vendor: gpu.Hygon, Type: gpu.Hygon, Model: "K900",
				BusID: "0000:36:00.0", MemoryTotal: total, DriverVersion: driver, MIGMode: "enabled",
			},
		},
		Stats: []gpu.Stats{
			{
				Index: new(0), UUID: "A0", Temperature: new(45.0), Utilization: new(0.0), Power: new(121.0),
				PowerLimit: new(700.0), MemoryTotal: total, MemoryUsed: new(int64(2) << 20),
			},
			{
				Index: new(1), UUID: "A1", Temperature: new(46.0), Utilization: new(88.0), Power: new(122.0),
				PowerLimit: new(700.0), MemoryTotal: total, Health: gpu.HealthFailed, HealthMessage: "Unhealthy",
			},
		},
		Failures: []gpu.Failure{{Index: new(1), UUID: "A1", BusID: "0000:36:00.0", Code: "unhealthy", Message: "Unhealthy"}},
		Topology: &gpu.Topology{
			Kind: "hygon", Links: []gpu.Link{{A: 0, B: 1, Type: "XHCL"}}, NUMA: []gpu.Affinity{{Index: 0, Node: new(2)}},
		},
		// Card 1 is in MIG mode: its slices are not the agent's to make.
		Capabilities: []gpu.Capability{{Index: new(0), SliceKinds: []string{"hygon-hami"}}},
	}
	if diff := cmp.Diff(want, rep); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestVirtualDCUsAreNoCapabilityUnlessTheirRuntimeAnswers(t *testing.T) {
	r := tool.NewReplay(said("hy-smi", 0, twoCards), said("hy-smi virtual -show-device-info", 1,
		"error: Failed to set log level: The device management runtime does not initialize.\n"))
	rep, err := New(r).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Capabilities) > 0 || rep.CollectorError != nil {
		t.Errorf("capabilities %v, collector error %v", rep.Capabilities, rep.CollectorError)
	}
}

func TestARoundCostsThreeCommandsAndHasBytesWattsAndSlices(t *testing.T) {
	r := tool.NewReplay(said("hy-smi", 0, twoCards), said(valuesCommand, 0, twoValues), said("hy-smi --showtopo", 0, ""),
		said("hy-smi virtual -show-device-info", 0, read(t, "virtual.txt")))
	rep, err := New(r).Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Unasked()) != 1 {
		t.Errorf("%d commands were not run, want 1", len(r.Unasked()))
	}
	if len(rep.Capabilities) != 1 || rep.Capabilities[0].SliceKinds[0] != "hygon-hami" {
		t.Errorf("capabilities %+v", rep.Capabilities)
	}
	if s := rep.Stats[0]; s.MemoryUsed == nil || s.PowerLimit == nil || s.UUID != "A0" {
		t.Errorf("%+v", s)
	}
}

func TestWhoseRocmSmiItIsDecidesWhatItPrints(t *testing.T) {
	amd := "======== ROCm System Management Interface ========\nGPU  Temp   AvgPwr  SCLK  MCLK  Fan  Perf  PwrCap  VRAM%  GPU%\n" +
		"0    44.0c  20.0W   25Mhz 96Mhz 0.0% auto  225.0W    0%   0%\n"
	for _, c := range []struct {
		name, path, out string
		cards           int
		other           bool
	}{
		{"AMD's", "/opt/rocm/bin/rocm-smi", amd, 0, true},
		{"Hygon's under AMD's path", "/opt/rocm/bin/rocm-smi", strings.ReplaceAll(twoCards, "HCU", "DCU"), 2, false},
		{"Hygon's, failing", "/opt/dtk-24.04/bin/rocm-smi", "ERROR: driver not initialized\n", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep, err := New(tool.NewReplay(said(c.path, 0, c.out))).Collect(t.Context())
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

func TestErrorsAreCollectorErrorsAlsoWithAFooter(t *testing.T) {
	for _, c := range []struct {
		name, out, code string
		exit            int
	}{
		{"no lspci in the image", "=== System Management Interface ===\nsh: 1: lspci: not found\n" +
			"Error: Dcu[0]: No DRM devices available, exiting.\n=== End of SMI Log ===\n", CodeNoDRM, 0},
		{"no driver", "ERROR:root:Driver not initialized (hycu not found in modules)\n", CodeDriver, 2},
		{"nothing printed", "", gpu.CodeNoOutput, 1},
		{"unknown words", "Traceback (most recent call last):\n", gpu.CodeExitStatus, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep, err := New(tool.NewReplay(said("hy-smi", c.exit, c.out))).Collect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if rep.CollectorError == nil || rep.CollectorError.Code != c.code {
				t.Errorf("collector error %v, want %s", rep.CollectorError, c.code)
			}
			if len(rep.Devices) > 0 {
				t.Errorf("devices %v", rep.Devices)
			}
		})
	}
}

func TestAHungDriverEndsTheRound(t *testing.T) {
	r := tool.NewReplay(said("hy-smi", 0, twoCards),
		tool.Recorded{Error: "hung", Result: tool.Result{Argv: []string{"hy-smi", "--showdriverversion"}}})
	_, err := New(r).Inventory(t.Context())
	if _, ok := errors.AsType[*tool.HungError](err); !ok {
		t.Errorf("error %v, want a HungError", err)
	}
}
