package nvidia

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/nvidia/mps"
	"github.com/heteroflow/node-agent/gpu/nvidia/xid"
	"github.com/heteroflow/node-agent/gpu/tool"
)

var _ gpu.Detector = (*Detector)(nil)

// everyField is the query of a driver that knows every field.
var everyField = "--query-gpu=" + strings.Join(slices.Concat(basicFields, newerFields), ",")

// without is that query less some fields.
func without(refused ...string) string {
	fields := slices.DeleteFunc(slices.Concat(basicFields, newerFields), func(f string) bool {
		return slices.Contains(refused, f)
	})
	return "--query-gpu=" + strings.Join(fields, ",")
}

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

func query(exitCode int, stdout, fields string, options ...string) tool.Recorded {
	return ran(exitCode, stdout, append([]string{fields, "--format=csv,nounits"}, options...)...)
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

func TestARoundIsOneCommand(t *testing.T) {
	r := &counter{Runner: tool.NewReplay(query(0, file(t, "two.csv"), everyField))}
	rep, err := New(r).Collect(t.Context())
	if err != nil || len(rep.Devices) != 2 || len(rep.Stats) != 2 || len(rep.Failures) != 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
	if want := []string{"nvidia-smi"}; !slices.Equal(r.names, want) {
		t.Errorf("ran %v, want %v", r.names, want)
	}
}

// counter notes which tools were run.
type counter struct {
	tool.Runner
	names []string
	args  [][]string
}

func (c *counter) Run(ctx context.Context, cmd tool.Command) (tool.Result, error) {
	c.names, c.args = append(c.names, cmd.Name), append(c.args, cmd.Args)
	return c.Runner.Run(ctx, cmd)
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

func TestAHungToolIsAnError(t *testing.T) {
	hung := query(0, "", everyField)
	hung.Error = "hung"
	_, err := New(tool.NewReplay(hung)).Collect(t.Context())
	if _, ok := errors.AsType[*tool.HungError](err); !ok {
		t.Errorf("the query: %v", err)
	}
	hung = ran(0, "", "-q", "-x")
	hung.Error = "hung"
	rep, err := New(tool.NewReplay(query(0, file(t, "two.csv"), everyField), hung)).Inventory(t.Context())
	if _, ok := errors.AsType[*tool.HungError](err); !ok || len(rep.Devices) != 2 {
		t.Errorf("a later command: %d cards, %v", len(rep.Devices), err)
	}
}

func TestFieldsThatADriverRefusesAreLeftOutFromThenOn(t *testing.T) {
	refuse := func(field string) string { return `Field "` + field + `" is not a valid field to query.` + "\n\n" }
	old := "index, uuid, name, driver_version\n0, " + uuid0 + ", Tesla K80, 470.57.02\n"
	r := &counter{Runner: tool.NewReplay(
		query(2, refuse("gpu_recovery_action"), everyField),
		query(2, refuse("reset_status.reset_required"), without("gpu_recovery_action")),
		query(0, old, without("gpu_recovery_action", "reset_status.reset_required")),
	)}
	d := New(r)
	for round, commands := range []int{3, 1} {
		r.names = nil
		rep, err := d.Collect(t.Context())
		if err != nil || rep.CollectorError != nil || len(rep.Devices) != 1 {
			t.Fatalf("round %d: %+v, %v", round, rep, err)
		}
		if len(r.names) != commands {
			t.Errorf("round %d: %d commands, want %d", round, len(r.names), commands)
		}
	}
}

func TestANewDriverIsAskedForEverythingAgain(t *testing.T) {
	row := func(driver string) string {
		return "index, uuid, name, driver_version\n0, " + uuid0 + ", Tesla T4, " + driver + "\n"
	}
	source := NewText(tool.NewReplay(
		query(2, `Field "gpu_recovery_action" is not a valid field to query.`, everyField),
		query(0, row("535.1"), without("gpu_recovery_action")),
	))
	if _, err := source.Collect(t.Context()); err != nil || !source.refused["gpu_recovery_action"] {
		t.Fatalf("refused %v, %v", source.refused, err)
	}
	source.run = tool.NewReplay(query(0, row("580.1"), without("gpu_recovery_action")))
	if _, err := source.Collect(t.Context()); err != nil || len(source.refused) != 0 {
		t.Errorf("refused %v, %v", source.refused, err)
	}
}

func TestABasicFieldThatIsRefusedIsTheErrorItIs(t *testing.T) {
	rep, err := New(tool.NewReplay(query(2, `Field "uuid" is not a valid field to query.`, everyField))).Collect(t.Context())
	if err != nil || rep.CollectorError == nil {
		t.Errorf("%+v, %v", rep, err)
	}
}

const lost = "Unable to determine the device handle for GPU 0000:A1:00.0: GPU is lost.  Reboot the system to recover this GPU\n"

func TestALostCardDoesNotHideTheOthers(t *testing.T) {
	first := "index, uuid, pci.bus_id, name\n0, " + uuid0 + ", 00000000:21:00.0, NVIDIA T4\n1, " + uuid1 + ", 00000000:A1:00.0, NVIDIA T4\n"
	rest := "index, uuid, pci.bus_id, name\n0, " + uuid0 + ", 00000000:21:00.0, NVIDIA T4\n"
	source := NewText(tool.NewReplay(query(0, first, everyField)))
	d := New(tool.NewReplay(), source)
	if rep, err := d.Collect(t.Context()); err != nil || len(rep.Devices) != 2 {
		t.Fatalf("%+v, %v", rep, err)
	}
	check := func(t *testing.T, d *Detector) {
		t.Helper()
		rep, err := d.Collect(t.Context())
		if err != nil || rep.CollectorError != nil {
			t.Fatal(rep.CollectorError, err)
		}
		if len(rep.Devices) != 1 || rep.Devices[0].UUID != uuid0 {
			t.Errorf("cards: %+v", rep.Devices)
		}
		if len(rep.Failures) != 1 || rep.Failures[0].BusID != "0000:a1:00.0" || rep.Failures[0].Code != "gpu_lost" {
			t.Errorf("failures: %+v", rep.Failures)
		}
	}
	t.Run("when they were seen before", func(t *testing.T) {
		source.run = tool.NewReplay(query(15, lost, everyField), query(0, rest, everyField, "--id="+uuid0))
		check(t, d)
	})
	t.Run("when the agent has only started", func(t *testing.T) {
		check(t, New(tool.NewReplay(
			query(15, lost, everyField),
			ran(15, "GPU 0: NVIDIA T4 (UUID: "+uuid0+")\n"+strings.Replace(lost, "GPU 0", "gpu 0", 1), "-L"),
			query(0, rest, everyField, "--id="+uuid0),
		)))
	})
	t.Run("and alone it is a failure without a card", func(t *testing.T) {
		rep, err := New(tool.NewReplay(query(15, lost, everyField), ran(15, lost, "-L"))).Collect(t.Context())
		if err != nil || rep.CollectorError != nil || len(rep.Devices) != 0 || len(rep.Failures) != 1 {
			t.Errorf("%+v, %v", rep, err)
		}
	})
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

func TestAnXidTakesACardUntilThereIsEvidenceThatItIsBack(t *testing.T) {
	card := gpu.Device{Index: new(4), UUID: uuid0, BusID: "0000:21:00.0"}
	there := gpu.Report{
		Devices: []gpu.Device{card},
		Stats:   []gpu.Stats{{Index: card.Index, UUID: card.UUID, Health: gpu.HealthOK}},
	}
	event := func(kind string, code int) []gpu.KernelEvent {
		e := gpu.KernelEvent{Kind: kind, BusIDs: []string{card.BusID}, Message: "NVRM: words"}
		if code > 0 {
			e.Code = &code
		}
		return []gpu.KernelEvent{e}
	}
	well := []string{card.UUID}
	for _, c := range []struct {
		name   string
		rounds []Reading
		want   []string // code of the failure, or health, after each round
	}{
		{
			"a program's fault leaves the card alone",
			[]Reading{{Report: there, Events: event(xid.KindXID, 31)}, {Report: there, Events: event(xid.KindXID, 94)}},
			[]string{"ok", "ok"},
		},
		{
			"an error that only asks to look further is a warning of its round",
			[]Reading{{Report: there, Events: event(xid.KindXID, 48)}, {Report: there}},
			[]string{"warning", "ok"},
		},
		{
			"a reset is over when the driver says so, later than the event",
			[]Reading{
				{Report: there, Events: event(xid.KindXID, 95), NoAction: well},
				{Report: there},
				{Report: there, NoAction: well},
			},
			[]string{"xid_95", "xid_95", "ok"},
		},
		{
			"a card off the bus is back when it answers",
			[]Reading{
				{Report: gpu.Report{}, Events: event(xid.KindXID, 79)},
				{Report: gpu.Report{}},
				{Report: there},
			},
			[]string{"xid_79", "xid_79", "ok"},
		},
		{
			"falling off without an Xid counts the same",
			[]Reading{{Report: there, Events: event(xid.KindOff, 0)}, {Report: there}},
			[]string{xid.KindOff, "ok"},
		},
		{
			"a row that has a failure is no answer",
			[]Reading{
				{Report: there, Events: event(xid.KindXID, 79)},
				{Report: gpu.Report{
					Devices: there.Devices, Stats: there.Stats,
					Failures: []gpu.Failure{{Index: card.Index, Code: "telemetry_error", Message: "ERR!"}},
				}},
				{Report: there},
			},
			[]string{"xid_79", "telemetry_error", "ok"},
		},
		{
			"the same error again is one failure",
			[]Reading{{Report: there, Events: slices.Concat(event(xid.KindXID, 119), event(xid.KindXID, 119))}},
			[]string{"xid_119"},
		},
		{
			"an error of the fabric is no card's",
			[]Reading{{Report: there, Events: event(xid.KindSXID, 20034)}},
			[]string{"ok"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			source := &fake{}
			d := New(tool.NewReplay(), source)
			for i, reading := range c.rounds {
				reading.Stats = slices.Clone(reading.Stats)
				reading.Failures = slices.Clone(reading.Failures)
				source.reading = reading
				rep, err := d.Collect(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				got := ""
				switch {
				case len(rep.Failures) > 0:
					got = rep.Failures[0].Code
				case len(rep.Stats) > 0:
					got = rep.Stats[0].Health
				}
				if got != c.want[i] {
					t.Errorf("round %d: %q, want %q (%+v)", i, got, c.want[i], rep.Failures)
				}
			}
		})
	}
}

func TestAFailureByXidNamesItsCardAndItsHealth(t *testing.T) {
	source := &fake{reading: Reading{
		Report: gpu.Report{
			Devices: []gpu.Device{{Index: new(2), UUID: uuid0, BusID: "0000:21:00.0"}, {Index: new(3), UUID: uuid1, BusID: "0000:22:00.0"}},
			Stats:   []gpu.Stats{{Index: new(2), UUID: uuid0, Health: gpu.HealthOK}, {Index: new(3), UUID: uuid1, Health: gpu.HealthOK}},
		},
		Events: []gpu.KernelEvent{{Kind: xid.KindXID, Code: new(64), BusIDs: []string{"0000:22:00.0"}}},
	}}
	rep, err := New(tool.NewReplay(), source).Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []gpu.Failure{{
		Index: new(3), UUID: uuid1, BusID: "0000:22:00.0", Code: "xid_64", Message: "Xid 64: row remapping failure",
	}}
	if diff := cmp.Diff(want, rep.Failures); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if rep.Stats[0].Health != gpu.HealthOK || rep.Stats[1].Health != gpu.HealthFailed {
		t.Errorf("health: %+v", rep.Stats)
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

func TestAnInventoryThatIsCutShortSaysSo(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := New(slow{tool.NewReplay(query(0, file(t, "two.csv"), everyField))}).Inventory(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
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
