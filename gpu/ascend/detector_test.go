package ascend

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
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

// devNodes makes a directory with the given device nodes.
func devNodes(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const map910B = "\tNPU ID                         Chip ID                        Chip Logic ID                  Chip Name\n" +
	"\t0                              0                              0                              910B9\n" +
	"\t3                              0                              1                              910B9\n" +
	"\t5                              0                              2                              910B9\n"

func TestInventoryJoinsWhatTheCommandsSay(t *testing.T) {
	r := tool.NewReplay(
		said("npu-smi info", 0, read(t, "info-910b.txt")),
		said("npu-smi info -m", 0, map910B),
		said("npu-smi info -t topo", 0, read(t, "topo.txt")),
		said("npu-smi info -t board -i 5", 0, read(t, "board-card5.txt")),
		said("npu-smi info -t health -i 3 -c 0", 0,
			"\tHealth Status                  : Critical\n\tError Code                     : 80E01801\n\tError Information              : hbm multi bit\n"),
	)
	rep, err := New(r, devNodes(t, "davinci0", "davinci1", "davinci2", "davinci_manager")).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := rep.Devices[2]
	want := gpu.Device{
		Index: new(2), Card: new(5), Chip: new(0), Minor: new(2), Vendor: gpu.Ascend, Type: gpu.Ascend,
		Model: "910B9", BusID: "0000:43:00.0", DriverVersion: "24.1.1",
		FirmwareVersion: "7.5.0.1.129", Serial: "2199000000BBBB000000",
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("card 5 (-want +got):\n%s", diff)
	}
	links := []gpu.Link{{A: 0, B: 1, Type: "HCCS"}, {A: 0, B: 2, Type: "PIX"}}
	if diff := cmp.Diff(links, rep.Topology.Links); diff != "" {
		t.Errorf("links, by index (-want +got):\n%s", diff)
	}
	if f := rep.Failures[0]; *f.Index != 1 || f.Message != "health Critical: hbm multi bit (error code 80E01801)" {
		t.Errorf("failure of the sick card: %+v", f)
	}
	if rep.DriverVersion != "24.1.1" {
		t.Errorf("driver %q", rep.DriverVersion)
	}
}

func TestLogicIDsAreNotTakenForNodesWhenTheyAreOthers(t *testing.T) {
	r := tool.NewReplay(said("npu-smi info", 0, read(t, "info-910b.txt")), said("npu-smi info -m", 0, map910B))
	// Of four nodes one has no running chip: which, the logic ids do not say.
	rep, err := New(r, devNodes(t, "davinci0", "davinci1", "davinci2", "davinci3")).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range rep.Devices {
		if d.Minor != nil {
			t.Errorf("card %d: minor %d was guessed", *d.Card, *d.Minor)
		}
	}
}

func TestPhysicalIDsMakeTheTopologysLabels(t *testing.T) {
	r := tool.NewReplay(
		said("npu-smi info", 0, read(t, "info-910c.txt")),
		said("npu-smi info -t topo", 0, "           Phy-ID2    Phy-ID3\nPhy-ID2    X          SIO\nPhy-ID3    SIO        X\n"),
	)
	rep, err := New(r, "").Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]gpu.Link{{A: 0, B: 1, Type: "SIO"}}, rep.Topology.Links); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAHealthyNodeCostsOneCommandARound(t *testing.T) {
	r := tool.NewReplay(said("npu-smi info", 0, read(t, "info-910c.txt")), said("npu-smi info -m", 0, map910B))
	if _, err := New(r, "").Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(r.Unasked()); n != 1 {
		t.Errorf("%d commands were not run, want 1", n)
	}
}

func TestNotInstalledIsNotThisVendor(t *testing.T) {
	d := New(tool.NewReplay(), "")
	for name, round := range map[string]func() error{
		"Inventory": func() error { _, err := d.Inventory(t.Context()); return err },
		"Collect":   func() error { _, err := d.Collect(t.Context()); return err },
	} {
		if err := round(); !errors.Is(err, tool.ErrNotInstalled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestErrorsOnStdoutAreCollectorErrors(t *testing.T) {
	for _, c := range []struct {
		name, out, code string
		exit            int
	}{
		{"driver not reachable", "DrvMngGetConsoleLogLevel failed. (ret=4)\ndcmi module initialize failed. ret is -8005\n", CodeInit, 187},
		{"held by another container", "dcmi model initialized failed, because the device is used. ret is -8020\n", CodeOccupied, 172},
		{"library not found", "npu-smi: error while loading shared libraries: libc_sec.so: cannot open\n", CodeLibrary, 127},
		{"nothing printed", "", gpu.CodeNoOutput, 1},
		{"unknown words", "segmentation fault\n", gpu.CodeExitStatus, 139},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep, err := New(tool.NewReplay(said("npu-smi info", c.exit, c.out)), "").Collect(t.Context())
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

func TestOneBadCardDoesNotHideTheOthers(t *testing.T) {
	common := "\tNPU ID                         : 0\n\tChip Count                     : 1\n\tChip ID                        : 0\n" +
		"\tAicore Usage Rate(%)           : 7\n\tTemperature(C)                 : 41\n\tNPU Real-time Power(W)         : 90.5\n"
	healthy := "\tHealth Status                  : OK\n\tError Code                     : NA\n\tError Information              : NA\n"
	r := tool.NewReplay(
		said("npu-smi info", 197, "Failed to get device type.\nFailed to query card chip total info.\n"),
		said("npu-smi info -m", 0, map910B),
		said("npu-smi info -t common -i 0", 0, common),
		said("npu-smi info -t health -i 0 -c 0", 0, healthy),
		said("npu-smi info -t common -i 3", 197, "Failed to query common info.\n"),
		said("npu-smi info -t health -i 3 -c 0", 197, "Failed to query health info.\n"),
		tool.Recorded{Error: "timeout", Result: tool.Result{Argv: strings.Fields("npu-smi info -t common -i 5")}},
		said("npu-smi info -t health -i 5 -c 0", 0, healthy),
	)
	rep, err := New(r, "").Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Devices) != 3 || rep.CollectorError != nil {
		t.Fatalf("%d devices, collector error %v", len(rep.Devices), rep.CollectorError)
	}
	want := gpu.Stats{
		Index: new(0), Temperature: new(41.0), Utilization: new(7.0), Power: new(90.5), Health: gpu.HealthOK,
	}
	if diff := cmp.Diff(want, rep.Stats[0]); diff != "" {
		t.Errorf("the good card (-want +got):\n%s", diff)
	}
	failed := map[int]string{}
	for _, f := range rep.Failures {
		failed[*f.Index] = f.Code
	}
	if diff := cmp.Diff(map[int]string{1: CodeCardQuery, 2: gpu.CodeToolTimeout}, failed); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
}

func TestAChipOfAGenerationWithoutTheChipOptionIsAskedWithoutIt(t *testing.T) {
	r := tool.NewReplay(said("npu-smi info", 0, read(t, "info-950.txt")), said("npu-smi info -t health -i 4", 0,
		"\tNPU ID : 4\n\tHealth : UNKNOWN\n\tError Code : 0x81AF8000\n\tError Information : heartbeat lost\n"))
	rep, err := New(r, "").Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := rep.Failures[0]; f.Message != "health UNKNOWN: heartbeat lost (error code 0x81AF8000)" || *f.Index != 1 {
		t.Errorf("%+v", f)
	}
}

// cancelling ends the context when the command with the given last argument runs.
type cancelling struct {
	tool.Runner
	at     string
	cancel context.CancelFunc
}

func (c cancelling) Run(ctx context.Context, cmd tool.Command) (tool.Result, error) {
	if slices.Contains(cmd.Args, c.at) {
		c.cancel()
	}
	return c.Runner.Run(ctx, cmd)
}

func TestWithoutTimeNoCardIsBlamed(t *testing.T) {
	r := tool.NewReplay(said("npu-smi info", 197, "Failed to get device type.\n"), said("npu-smi info -m", 0, map910B))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rep, err := New(cancelling{r, "common", cancel}, "").Collect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if rep.CollectorError == nil || len(rep.Failures) > 0 {
		t.Errorf("collector error %v, failures %v", rep.CollectorError, rep.Failures)
	}
}

func TestWithoutTheListOfChipsTheTablesErrorStands(t *testing.T) {
	r := tool.NewReplay(said("npu-smi info", 197, "Failed to get device type.\n"))
	rep, err := New(r, "").Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if rep.CollectorError == nil || rep.CollectorError.Code != CodeCardQuery {
		t.Errorf("collector error %v", rep.CollectorError)
	}
}

func TestAHungDriverEndsTheRound(t *testing.T) {
	r := tool.NewReplay(
		said("npu-smi info", 0, read(t, "info-910c.txt")),
		tool.Recorded{Error: "hung", Result: tool.Result{Argv: strings.Fields("npu-smi info -m")}},
	)
	_, err := New(r, "").Inventory(t.Context())
	if _, ok := errors.AsType[*tool.HungError](err); !ok {
		t.Errorf("error %v, want a HungError", err)
	}
}
