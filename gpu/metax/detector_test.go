package metax

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

func read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestInventoryJoinsWhatTheCommandsSay(t *testing.T) {
	r := tool.NewReplay(
		said("mx-smi", 0, read(t, "table.txt")),
		said("mx-smi -L", 0, read(t, "list.txt")),
		said("mx-smi --summary", 0, read(t, "summary.txt")),
		said("mx-smi topo -m", 0, read(t, "topo.txt")),
	)
	rep, err := New(r).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if rep.DriverVersion != "3.9.1" || rep.Topology == nil || rep.CollectorError != nil {
		t.Fatalf("%+v", rep)
	}
	want := gpu.Device{
		Index: new(0), Card: new(0), UUID: "GPU-00000000-0000-4000-8000-00000000000a", Vendor: gpu.MetaX, Type: gpu.MetaX,
		Model: "MetaX C500", BusID: "0000:21:00.0", MemoryTotal: new(int64(65536) << 20), DriverVersion: "3.9.1",
		FirmwareVersion: "1.34.0.0", Serial: "TESTBOARD0001",
	}
	if diff := cmp.Diff(want, rep.Devices[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := rep.Stats[0]; s.UUID != want.UUID || *s.Power != 301 || *s.Temperature != 68 || s.Health != gpu.HealthOK {
		t.Errorf("measurements %+v", s)
	}
}

func TestARoundCostsOneCommandUnderEitherName(t *testing.T) {
	for _, name := range []string{"mx-smi", "/opt/hpcc/bin/ht-smi"} {
		r := tool.NewReplay(said(name, 0, strings.ReplaceAll(read(t, "table.txt"), "MX-SMI", "HT-SMI")), said(name+" -L", 0, ""))
		rep, err := New(r).Collect(t.Context())
		if err != nil || len(rep.Devices) != 3 || len(r.Unasked()) != 1 {
			t.Errorf("%s: %d devices, %d commands not run, %v", name, len(rep.Devices), len(r.Unasked()), err)
		}
	}
}

func TestOneCardThatIsNotAvailableDoesNotHideTheOthers(t *testing.T) {
	rep, err := New(tool.NewReplay(said("mx-smi", 1, read(t, "table.txt")))).Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []gpu.Failure{{Index: new(3), BusID: "0000:23:00.0", Code: CodeNotAvailable, Message: "Not Available"}}
	if diff := cmp.Diff(want, rep.Failures); diff != "" || len(rep.Devices) != 3 || rep.CollectorError != nil {
		t.Errorf("%d devices, %v (-want +got):\n%s", len(rep.Devices), rep.CollectorError, diff)
	}
}

func TestNotInstalledIsNotThisVendor(t *testing.T) {
	d := New(tool.NewReplay())
	if _, err := d.Inventory(t.Context()); !errors.Is(err, tool.ErrNotInstalled) {
		t.Errorf("Inventory: %v", err)
	}
	if _, err := d.Collect(t.Context()); !errors.Is(err, tool.ErrNotInstalled) {
		t.Errorf("Collect: %v", err)
	}
}

func TestErrorsAreCollectorErrors(t *testing.T) {
	for _, c := range []struct {
		name, out, code string
		exit            int
	}{
		{"no card", "mx-smi  version: 2.3.3\nNo available devices\n", CodeNoDevice, 0},
		{"no driver", "Error: metax driver is not loaded\n", CodeDriver, 1},
		{"no library", "mx-smi: error while loading shared libraries: libmxsml.so\n", CodeLibrary, 127},
		{"an unreadable counter of all", "mxSmlGetDeviceCount failed: Sysfs error\n", CodeTool, 1},
		{"nothing printed", "", gpu.CodeNoOutput, 1},
		{"other words", "Segmentation fault\n", gpu.CodeExitStatus, 139},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep, err := New(tool.NewReplay(said("mx-smi", c.exit, c.out))).Collect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if rep.CollectorError == nil || rep.CollectorError.Code != c.code || len(rep.Devices) > 0 {
				t.Errorf("%d devices, collector error %v, want %s", len(rep.Devices), rep.CollectorError, c.code)
			}
		})
	}
}

func TestAnEmptyNodeIsNoError(t *testing.T) {
	rep, err := New(tool.NewReplay(said("mx-smi", 0, "mx-smi  version: 2.3.3\n\nAttached GPUs      : 0\n"))).Collect(t.Context())
	if err != nil || rep.CollectorError != nil || len(rep.Devices) > 0 {
		t.Errorf("%+v, %v", rep, err)
	}
}
