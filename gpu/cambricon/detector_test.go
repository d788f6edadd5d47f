package cambricon

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

func TestInventoryCompletesTheOldInfoFromTheTable(t *testing.T) {
	const oldInfo = "================CNMON v4.20.30================\nCard 0\n" +
		"    Product Name                   : MLU998-X4\n    Driver                         : v4.20.30\n" +
		"    Temperature                    :\n        Board                      : 49 C\n" +
		"    Physical Memory Usage          :\n        Total                      : 23308 MiB\n" +
		"        Used                       : 4096 MiB\n" +
		"    Power                          :\n        Usage                      : 38 W\n"
	r := tool.NewReplay(said("cnmon info", 0, oldInfo), said("cnmon", 0, read(t, "table-4.txt")),
		said("cnmon topo -m", 0, read(t, "topo.txt")))
	rep, err := New(r).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	total := new(int64(23308) << 20)
	want := gpu.Report{
		Vendor: gpu.Cambricon, DriverVersion: "v4.20.30",
		Devices: []gpu.Device{{
			Index: new(0), Card: new(0), Minor: new(0), Vendor: gpu.Cambricon, Type: gpu.Cambricon,
			Model: "MLU998-X4", MemoryTotal: total, DriverVersion: "v4.20.30", FirmwareVersion: "v1.1.9",
		}},
		Stats: []gpu.Stats{{
			Index: new(0), Temperature: new(49.0), Utilization: new(7.0), Power: new(38.0), PowerLimit: new(150.0),
			MemoryUsed: new(int64(4096) << 20), MemoryTotal: total,
		}},
	}
	if diff := cmp.Diff(want.Devices, rep.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Stats, rep.Stats); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	if rep.Topology == nil || len(rep.Topology.Links) != 1 || rep.DriverVersion != want.DriverVersion {
		t.Errorf("topology %+v, driver %q", rep.Topology, rep.DriverVersion)
	}
}

func TestARoundCostsOneCommandAndNamesTheSickCards(t *testing.T) {
	r := tool.NewReplay(said("cnmon info", 0, read(t, "info.txt")), said("cnmon", 0, read(t, "table.txt")))
	rep, err := New(r).Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Unasked()) != 1 {
		t.Errorf("%d commands were not run, want 1", len(r.Unasked()))
	}
	failed := map[int]string{}
	for _, f := range rep.Failures {
		failed[*f.Index] = f.Code
	}
	if diff := cmp.Diff(map[int]string{2: CodeUnhealthy, 3: CodeDriverState}, failed); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	if len(rep.Devices) != 3 {
		t.Errorf("%d cards", len(rep.Devices))
	}
}

func TestWhereInfoFailsTheTableAnswers(t *testing.T) {
	r := tool.NewReplay(said("cnmon info", 1, "Error: unknown command\n"), said("cnmon", 0, read(t, "table.txt")))
	for name, round := range map[string]func() (gpu.Report, error){
		"Inventory": func() (gpu.Report, error) { return New(r).Inventory(t.Context()) },
		"Collect":   func() (gpu.Report, error) { return New(r).Collect(t.Context()) },
	} {
		rep, err := round()
		if err != nil || rep.CollectorError != nil || len(rep.Devices) != 2 {
			t.Errorf("%s: %d cards, %v, %v", name, len(rep.Devices), rep.CollectorError, err)
		}
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

func TestErrorsAreCollectorErrors(t *testing.T) {
	for _, c := range []struct {
		name, out, code string
		exit            int
	}{
		{"library not found", "cnmon: error while loading shared libraries: libcndev.so: cannot open\n", CodeLibrary, 127},
		{"no permission", "open /dev/cambricon_ctl: Permission denied\n", CodePermission, 1},
		{"its own words", "Error: cndev init failed\n", CodeTool, 1},
		{"nothing printed", "", gpu.CodeNoOutput, 1},
		{"unknown words", "core dumped\n", gpu.CodeExitStatus, 134},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := tool.NewReplay(said("cnmon info", c.exit, c.out), said("cnmon", c.exit, c.out))
			for name, round := range map[string]func() (gpu.Report, error){
				"Inventory": func() (gpu.Report, error) { return New(r).Inventory(t.Context()) },
				"Collect":   func() (gpu.Report, error) { return New(r).Collect(t.Context()) },
			} {
				rep, err := round()
				if err != nil {
					t.Fatal(err)
				}
				if rep.CollectorError == nil || rep.CollectorError.Code != c.code || len(rep.Devices) > 0 {
					t.Errorf("%s: collector error %v, want %s", name, rep.CollectorError, c.code)
				}
			}
		})
	}
}

func TestAHungDriverEndsTheRound(t *testing.T) {
	hung := func(command string) tool.Recorded {
		return tool.Recorded{Error: "hung", Result: tool.Result{Argv: strings.Fields(command)}}
	}
	_, err := New(tool.NewReplay(said("cnmon info", 0, read(t, "info.txt")), hung("cnmon"))).Inventory(t.Context())
	if _, ok := errors.AsType[*tool.HungError](err); !ok {
		t.Errorf("error %v, want a HungError", err)
	}
}
