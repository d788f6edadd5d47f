package nvidia

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/nvidia/mps"
	"github.com/heteroflow/node-agent/gpu/tool"
)

var _ gpu.Detector = (*Detector)(nil)

func file(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// ran is one recorded command of nvidia-smi.
func ran(exitCode int, stdout string, args ...string) tool.Recorded {
	return tool.Recorded{Result: tool.Result{
		Argv: append([]string{"/usr/bin/nvidia-smi"}, args...), ExitCode: exitCode, Stdout: []byte(stdout),
	}}
}

func mpsProbe(exitCode int, stdout string) tool.Recorded {
	return tool.Recorded{Input: mps.Probe + "\n", Result: tool.Result{
		Argv: []string{"/usr/bin/" + mps.Tool}, ExitCode: exitCode, Stdout: []byte(stdout),
	}}
}

const (
	uuid0 = "GPU-3d0f7a10-52c8-4be1-a0c4-6f1e2d3c4b50"
	uuid1 = "GPU-3d0f7a11-52c8-4be1-a0c4-6f1e2d3c4b51"
	mig0  = "MIG-91b2c3d0-0f1e-5a2b-8c3d-4e5f60718290"
)

const gib = int64(1) << 30

func TestInventoryOfANodeWithAPartitionedCardKnowsEverything(t *testing.T) {
	rep, err := New(tool.NewReplay(
		query(0, file(t, "two.csv"), everyField),
		ran(0, file(t, "two.xml"), "-q", "-x"),
		ran(0, file(t, "two-topo.txt"), "topo", "-m"),
		ran(0, file(t, "two-list.txt"), "-L"),
		mpsProbe(0, "100.0\n"),
	)).Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := gpu.Report{
		Vendor: gpu.NVIDIA, DriverVersion: "575.57.08",
		Devices: []gpu.Device{{
			Index: new(0), UUID: uuid0, Vendor: gpu.NVIDIA, Type: gpu.NVIDIA, Model: "NVIDIA H100 PCIe",
			BusID: "0000:21:00.0", MemoryTotal: new(81559 * gib / 1024), DriverVersion: "575.57.08",
			FirmwareVersion: "96.00.74.00.01", Serial: "1650000000011", MIGMode: "enabled", Minor: new(1),
			Instances: []gpu.Instance{{GI: new(9), CI: new(0), UUID: mig0, Profile: "1g.10gb"}},
		}, {
			Index: new(1), UUID: uuid1, Vendor: gpu.NVIDIA, Type: gpu.NVIDIA, Model: "NVIDIA H100 PCIe",
			BusID: "0000:a1:00.0", MemoryTotal: new(81559 * gib / 1024), DriverVersion: "575.57.08",
			FirmwareVersion: "96.00.74.00.01", Serial: "1650000000012", MIGMode: "disabled", Minor: new(0),
		}},
		Stats: []gpu.Stats{{
			Index: new(0), UUID: uuid0, Temperature: new(41.0), MemoryUsed: new(139 * gib / 1024),
			MemoryTotal: new(81559 * gib / 1024), Power: new(88.12), PowerLimit: new(350.0), Health: gpu.HealthOK,
		}, {
			Index: new(1), UUID: uuid1, Temperature: new(55.0), Utilization: new(97.0), MemoryUsed: new(70112 * gib / 1024),
			MemoryTotal: new(81559 * gib / 1024), Power: new(301.5), PowerLimit: new(310.0), Health: gpu.HealthOK,
		}},
		Topology: &gpu.Topology{
			Kind: "nvidia", Links: []gpu.Link{{A: 0, B: 1, Type: "SYS"}},
			NUMA: []gpu.Affinity{{Index: 0, Node: new(0), CPUs: "0-15"}, {Index: 1, Node: new(1), CPUs: "16-31"}},
			NICs: []gpu.NICLink{{Index: 0, NIC: "NIC0", Type: "PIX"}, {Index: 1, NIC: "NIC0", Type: "SYS"}},
		},
		Capabilities: []gpu.Capability{
			{Index: new(0), MIGCapable: true, SliceKinds: []string{SliceMIG}},
			{Index: new(1), MPSCapable: true, SliceKinds: []string{SliceMPS}},
		},
	}
	if diff := cmp.Diff(want, rep); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWithoutTheToolItIsNotThisVendor(t *testing.T) {
	d := New(tool.NewReplay())
	for name, ask := range map[string]func(context.Context) (gpu.Report, error){"inventory": d.Inventory, "collect": d.Collect} {
		if _, err := ask(t.Context()); !errors.Is(err, tool.ErrNotInstalled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAToolThatFailsIsACollectorErrorAndNeverNoCard(t *testing.T) {
	for name, c := range map[string]struct {
		exit   int
		stdout string
		code   string
	}{
		"driver gone": {9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", "driver_not_loaded"},
		"blind":       {255, "Failed to initialize NVML: Unknown Error\n", "nvml_unknown"},
		"crash":       {139, "", gpu.CodeNoOutput},
		"nonsense":    {0, "hello, world\n", gpu.CodeUnrecognised},
	} {
		t.Run(name, func(t *testing.T) {
			d := New(tool.NewReplay(query(c.exit, c.stdout, everyField)))
			for _, ask := range []func(context.Context) (gpu.Report, error){d.Inventory, d.Collect} {
				rep, err := ask(t.Context())
				if err != nil || rep.CollectorError == nil || rep.CollectorError.Code != c.code {
					t.Errorf("%v, %v; want %s", rep.CollectorError, err, c.code)
				}
			}
		})
	}
}

func TestMPSIsPromisedOnlyWhileItsDaemonAnswers(t *testing.T) {
	cards := query(0, file(t, "two.csv"), everyField)
	capable := func(rep gpu.Report) bool {
		return slices.ContainsFunc(rep.Capabilities, func(c gpu.Capability) bool { return c.MPSCapable })
	}
	for name, c := range map[string]struct {
		probe tool.Recorded
		want  bool
	}{
		"it answers":       {mpsProbe(0, "100.0\n"), true},
		"there is none":    {mpsProbe(1, "Cannot find MPS control daemon process\n"), false},
		"silence":          {mpsProbe(0, ""), false},
		"something else":   {mpsProbe(0, "Failed to connect\n"), false},
		"no such program":  {ran(0, "", "unused"), false},
		"it does not come": {func() tool.Recorded { r := mpsProbe(0, ""); r.Error = "timeout"; return r }(), false},
	} {
		t.Run(name, func(t *testing.T) {
			rep, err := New(tool.NewReplay(cards, c.probe)).Inventory(t.Context())
			if err != nil || capable(rep) != c.want {
				t.Errorf("capabilities %+v, %v", rep.Capabilities, err)
			}
		})
	}
	for _, c := range []struct {
		code string
		want bool
	}{{"telemetry_error", false}, {"inforom_corrupted", true}} {
		card := gpu.Device{Index: new(0), UUID: uuid0}
		source := &fake{reading: Reading{Report: gpu.Report{
			Devices: []gpu.Device{card}, Failures: []gpu.Failure{{UUID: card.UUID, Code: c.code, Message: "words"}},
		}}}
		rep, err := New(tool.NewReplay(mpsProbe(0, "100.0\n")), source).Inventory(t.Context())
		if err != nil || capable(rep) != c.want {
			t.Errorf("a card with %s: %+v, %v", c.code, rep.Capabilities, err)
		}
	}
	d := New(tool.NewReplay(cards, mpsProbe(0, "100.0\n")))
	if rep, err := d.Inventory(t.Context()); err != nil || !capable(rep) {
		t.Fatal(rep, err)
	}
	d.run = tool.NewReplay(cards, mpsProbe(1, "Cannot find MPS control daemon process\n"))
	if rep, err := d.Collect(t.Context()); err != nil || capable(rep) {
		t.Errorf("after the daemon's end: %+v, %v", rep.Capabilities, err)
	}
}

// fake is a Source that answers what it is told to.
type fake struct {
	reading Reading
	err     error
	asked   int
}

func (f *fake) Inventory(ctx context.Context) (Reading, error) { return f.Collect(ctx) }

func (f *fake) Collect(context.Context) (Reading, error) {
	f.asked++
	return f.reading, f.err
}

func TestTheNextSourceIsAskedOnlyWhenOneIsNotThere(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		first error
		asked int // how often the second
		err   error
	}{
		"not installed": {tool.ErrNotInstalled, 1, nil},
		"broken":        {broken, 0, broken},
		"well":          {nil, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			second := &fake{}
			_, err := New(tool.NewReplay(), &fake{err: c.first}, second).Collect(t.Context())
			if second.asked != c.asked || !errors.Is(err, c.err) {
				t.Errorf("the second was asked %d times, error %v", second.asked, err)
			}
		})
	}
}

// slow answers as its replay does, but not before ctx has ended.
type slow struct{ tool.Runner }

func (s slow) Run(ctx context.Context, cmd tool.Command) (tool.Result, error) {
	if cmd.Name == smiTool && slices.Contains(cmd.Args, "topo") {
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}
	return s.Runner.Run(ctx, cmd)
}

func TestWhatComesTooLateForAnInventoryIsAbsentFromIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		rep, err := New(slow{tool.NewReplay(query(0, file(t, "two.csv"), everyField))}).Inventory(ctx)
		if err != nil || len(rep.Devices) != 2 || rep.Topology != nil {
			t.Errorf("%+v, %v", rep, err)
		}
	})
}

func TestARecordingOfOtherCommandsIsUnderstood(t *testing.T) {
	replay := tool.NewReplay(ran(0, file(t, "two-list.txt"), "-L"), ran(0, file(t, "two.xml"), "-q", "-x"))
	snap, err := gpu.Replay(t.Context(), replay, []gpu.Detector{New(replay)}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(snap)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{uuid0, uuid1, mig0, `"mig_capable":true`, `"bus_id":"0000:a1:00.0"`} {
		if strings.Count(string(raw), want) == 0 {
			t.Errorf("%s is not in %s", want, raw)
		}
	}
}

func TestEveryCommandOfABugReportIsOneOfNVIDIAsTools(t *testing.T) {
	for _, argv := range New(tool.NewReplay()).Commands() {
		if argv[0] != smiTool && argv[0] != mps.Tool {
			t.Errorf("%v", argv)
		}
		for _, a := range argv {
			if slices.Contains([]string{"-cgi", "-cci", "-dgi", "-dci", "-mig", "-r", "--gpu-reset", "-pm"}, a) {
				t.Errorf("%v changes something", argv)
			}
		}
	}
}
