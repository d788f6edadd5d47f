package enflame

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

const query = "efsmi -q -d DEVICE,POWER,TEMP,MEMORY,USAGE,PCIE"

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

const oneCard = `| EFSMI: 1.7.3.1           Driver Ver: 1.7.3.1                                |
| DEV    NAME                 | Boot FW VER       | BUS-ID      ECC           |
| TEMP   Lpm   Pwr(Usage/Cap) | Mem      GCU Virt | DUsed       SN            |
| 0      Enflame S60          | 40.2.9.1          | 00:2c:00.0  Enable        |
| 45℃    LP0     168W / 300W  | 42976MiB Disable  | 97%         TESTSERIAL006 |
`

func TestInventoryJoinsWhatTheCommandsSay(t *testing.T) {
	r := tool.NewReplay(
		said(query, 0, read(t, "query.txt")),
		said("efsmi", 0, oneCard),
		said("efsmi -L", 0, read(t, "list.txt")),
	)
	rep, err := New(r).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if rep.DriverVersion != "1.7.3.1" || rep.Topology == nil || rep.CollectorError != nil || len(rep.Devices) != 4 {
		t.Fatalf("%+v", rep)
	}
	want := gpu.Device{
		Index: new(0), UUID: "TESTUUID002", Vendor: gpu.Enflame, Type: gpu.Enflame, Model: "S60", BusID: "0000:2c:00.0",
		MemoryTotal: new(int64(42976) << 20), DriverVersion: "1.7.3.1", FirmwareVersion: "40.2.9.1", Serial: "TESTSERIAL006",
	}
	if diff := cmp.Diff(want, rep.Devices[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := rep.Stats[0]; s.UUID != want.UUID || *s.Power != 96.5 || *s.MemoryUsed != 24028<<20 || s.Health != gpu.HealthOK {
		t.Errorf("measurements %+v", s)
	}
}

func TestARoundCostsOneCommand(t *testing.T) {
	r := tool.NewReplay(said(query, 0, read(t, "query.txt")), said("efsmi", 0, ""))
	rep, err := New(r).Collect(t.Context())
	if err != nil || len(rep.Devices) != 4 || len(r.Unasked()) != 1 {
		t.Errorf("%d devices, %d commands not run, %v", len(rep.Devices), len(r.Unasked()), err)
	}
}

func TestOneCardThatFailsDoesNotHideTheOthers(t *testing.T) {
	rep, err := New(tool.NewReplay(said(query, 1, read(t, "query.txt")))).Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []gpu.Failure{
		{Index: new(1), UUID: "TESTUUID003", Code: CodeUnhealthy, Message: "Health: False"},
		{Index: new(2), Code: CodeCardFailed, Message: "Error: get device info failed"},
	}
	if diff := cmp.Diff(want, rep.Failures); diff != "" || len(rep.Devices) != 4 || rep.CollectorError != nil {
		t.Errorf("%d devices, %v (-want +got):\n%s", len(rep.Devices), rep.CollectorError, diff)
	}
}

func TestWhereTheQueryFailsTheTableIsAsked(t *testing.T) {
	d := New(tool.NewReplay(said(query, 1, "Error: unknown option DEVICE\n"), said("efsmi", 0, oneCard)))
	for name, round := range map[string]func(context.Context) (gpu.Report, error){"Inventory": d.Inventory, "Collect": d.Collect} {
		rep, err := round(t.Context())
		if err != nil || len(rep.Devices) != 1 || rep.CollectorError != nil {
			t.Errorf("%s: %+v, %v", name, rep, err)
		}
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
		{"no card", "-----\nNo Enflame device found\n", CodeNoDevice, 0},
		{"no driver of the device", "ERROR: no enflame device driver is loaded\n", CodeDriver, 1},
		{"no driver", "Error: enflame driver is not loaded\n", CodeDriver, 1},
		{"no library", "efsmi: error while loading shared libraries: libefml.so\n", CodeLibrary, 127},
		{"the library fails", "EFML init failed\n", CodeTool, 1},
		{"nothing printed", "", gpu.CodeNoOutput, 1},
		{"other words", "Segmentation fault\n", gpu.CodeExitStatus, 139},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := tool.NewReplay(said(query, c.exit, c.out), said("efsmi", c.exit, c.out))
			rep, err := New(r).Collect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if rep.CollectorError == nil || rep.CollectorError.Code != c.code || len(rep.Devices) > 0 {
				t.Errorf("%d devices, collector error %v, want %s", len(rep.Devices), rep.CollectorError, c.code)
			}
		})
	}
}
