package musa

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

const oneCard = `{"Driver Version": "3.3.9", "GPU": [{"Index": "0", "Product Name": "MTT S5000", "GPU UUID": "u0",
 "PCI": {"Bus ID": "00000000:21:00.0"}, "FB Memory Usage": {"Total": "81920MiB", "Used": "1MiB"}, "Power Readings": {"Power Draw ": "99.5W"}}]}`

const oneRow = `    mthreads-gmi:2.0.0           Driver Version:3.0.0
0    MTT S80        |00000000:01:00.0    |0%    3419MiB(16384MiB)
     Physical       |16x(16x)            |59C   YES
`

func TestInventoryJoinsWhatTheCommandsSay(t *testing.T) {
	r := tool.NewReplay(
		said("mthreads-gmi -q --json", 0, oneCard),
		said("mthreads-gmi", 0, read(t, "table.txt")),
		said("mthreads-gmi topo -m", 0, read(t, "topo.txt")),
	)
	rep, err := New(r).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Devices) != 3 || rep.DriverVersion != "3.3.9" || rep.Topology == nil || rep.CollectorError != nil {
		t.Fatalf("%+v", rep)
	}
	want := gpu.Device{
		Index: new(0), UUID: "u0", Vendor: gpu.MUSA, Type: gpu.MUSA, Model: "MTT S5000", BusID: "0000:21:00.0",
		MemoryTotal: new(int64(81920) << 20), DriverVersion: "3.3.9",
	}
	if diff := cmp.Diff(want, rep.Devices[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := rep.Stats[0]; s.UUID != "u0" || *s.Power != 99.5 || *s.Temperature != 61 || *s.MemoryUsed != 1<<20 {
		t.Errorf("measurements %+v", s)
	}
}

func TestARoundCostsOneCommand(t *testing.T) {
	r := tool.NewReplay(said("mthreads-gmi -q --json", 0, oneCard), said("mthreads-gmi", 0, oneRow))
	rep, err := New(r).Collect(t.Context())
	if err != nil || len(rep.Devices) != 1 || len(r.Unasked()) != 1 {
		t.Errorf("%d devices, %d commands not run, %v", len(rep.Devices), len(r.Unasked()), err)
	}
}

func TestAToolWithoutJSONIsAskedForItsTable(t *testing.T) {
	d := New(tool.NewReplay(said("mthreads-gmi -q --json", 1, "Error: unknown option --json\n"), said("mthreads-gmi", 0, oneRow)))
	for name, round := range map[string]func() (gpu.Report, error){
		"Inventory": func() (gpu.Report, error) { return d.Inventory(t.Context()) },
		"Collect":   func() (gpu.Report, error) { return d.Collect(t.Context()) },
	} {
		rep, err := round()
		if err != nil || len(rep.Devices) != 1 || rep.CollectorError != nil || rep.Devices[0].BusID != "0000:01:00.0" {
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

func TestErrorsAreCollectorErrorsAlsoWithStatusZero(t *testing.T) {
	for _, c := range []struct {
		name, out, code string
		exit            int
	}{
		{"no card behind the IOMMU", "Error: No MT GPU device found.\n", CodeNoDevice, 0},
		{"no group to open the nodes", "failed to initialize mtml\n", CodeLibrary, 1},
		{"no library", "mthreads-gmi: error while loading shared libraries: libmtml.so.2: cannot open shared object file\n", CodeMissing, 127},
		{"no kernel module", "Error: failed to load driver\n", CodeDriver, 1},
		{"a container without the runtime", "", gpu.CodeNoOutput, 0},
		{"other words", "Segmentation fault\n", gpu.CodeExitStatus, 139},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := tool.NewReplay(said("mthreads-gmi -q --json", c.exit, c.out), said("mthreads-gmi", c.exit, c.out))
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
