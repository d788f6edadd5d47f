package iluvatar

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
		said("ixsmi -q -x", 0, read(t, "xml.txt")),
		said("ixsmi", 0, read(t, "table.txt")),
		said("ixsmi topo -m", 0, read(t, "topo.txt")),
	)
	rep, err := New(r).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if rep.DriverVersion != "4.3.9" || rep.Topology == nil || rep.CollectorError != nil {
		t.Fatalf("%+v", rep)
	}
	want := gpu.Device{
		Index: new(0), Minor: new(1), UUID: "GPU-00000000-0000-4000-8000-00000000000a", Vendor: gpu.Iluvatar,
		Type: gpu.Iluvatar, Model: "Iluvatar BI-V150", BusID: "0000:21:00.0", MemoryTotal: new(int64(32768) << 20),
		DriverVersion: "4.3.9", Serial: "TESTSERIAL0001",
	}
	if diff := cmp.Diff(want, rep.Devices[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(rep.Failures) != 2 { // XML's card 1 and the table's card 2 are hung
		t.Errorf("failures %+v", rep.Failures)
	}
}

func TestARoundCostsOneCommandAndNamesTheUUIDs(t *testing.T) {
	r := tool.NewReplay(said("ixsmi -q -x", 0, read(t, "xml.txt")), said("ixsmi", 0, ""))
	rep, err := New(r).Collect(t.Context())
	if err != nil || len(rep.Devices) != 3 || rep.Stats[0].UUID == "" || len(r.Unasked()) != 1 {
		t.Errorf("%+v, %d commands not run, %v", rep, len(r.Unasked()), err)
	}
}

func TestWhereXMLFailsTheTableIsAsked(t *testing.T) {
	d := New(tool.NewReplay(said("ixsmi -q -x", 1, "Invalid combination of input arguments: x\n"), said("ixsmi", 0, read(t, "table.txt"))))
	for name, round := range map[string]func(context.Context) (gpu.Report, error){"Inventory": d.Inventory, "Collect": d.Collect} {
		rep, err := round(t.Context())
		if err != nil || len(rep.Devices) != 4 || rep.CollectorError != nil {
			t.Errorf("%s: %+v, %v", name, rep, err)
		}
	}
}

// environment notes the environment of the commands.
type environment struct {
	tool.Runner
	env []string
}

func (e *environment) Run(ctx context.Context, cmd tool.Command) (tool.Result, error) {
	e.env = cmd.Env
	return e.Runner.Run(ctx, cmd)
}

func TestTheLibrariesBesideTheToolAreFound(t *testing.T) {
	for path, want := range map[string]string{
		"/usr/local/corex-4.3.0/bin/ixsmi": "LD_LIBRARY_PATH=/usr/local/corex-4.3.0/lib64:/usr/local/corex-4.3.0/lib",
		"/usr/bin/ixsmi":                   "LD_LIBRARY_PATH=/usr/local/corex/lib64:/usr/local/corex/lib",
	} {
		r := &environment{Runner: tool.NewReplay(said(path+" -q -x", 0, read(t, "xml.txt")))}
		if _, err := New(r).Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{want}, r.env); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
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
		{"no card", "No devices were found\n", CodeNoDevice, 6},
		{"no driver", "IXSMI has failed because it couldn't communicate with the driver.\n", CodeDriver, 9},
		{"no library", "ixsmi: error while loading shared libraries: libixml.so\n", CodeLibrary, 127},
		{"a field of another version", "Field \"power.draw\" is not a valid field to query.\n\n", CodeArgument, 0},
		{"nothing printed", "", gpu.CodeNoOutput, 1},
		{"other words", "Segmentation fault\n", gpu.CodeExitStatus, 139},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := tool.NewReplay(said("ixsmi -q -x", c.exit, c.out), said("ixsmi", c.exit, c.out))
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
