package nvidia

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// everyField is the query of a driver that knows every field.
var everyField = "--query-gpu=" + strings.Join(slices.Concat(basicFields, newerFields), ",")

// without is that query less some fields.
func without(refused ...string) string {
	fields := slices.DeleteFunc(slices.Concat(basicFields, newerFields), func(f string) bool {
		return slices.Contains(refused, f)
	})
	return "--query-gpu=" + strings.Join(fields, ",")
}

func query(exitCode int, stdout, fields string, options ...string) tool.Recorded {
	return ran(exitCode, stdout, append([]string{fields, "--format=csv,nounits"}, options...)...)
}

func TestALogThatLeavesALostCardOutIsNotMistakenForOtherCards(t *testing.T) {
	rows := "index, uuid, pci.bus_id, name, mig.mode.current\n" +
		"0, " + uuid0 + ", 00000000:21:00.0, NVIDIA H100 PCIe, Disabled\n" +
		"2, " + uuid1 + ", 00000000:A1:00.0, NVIDIA H100 PCIe, Enabled\n"
	rep, err := New(tool.NewReplay(query(0, rows, everyField), ran(0, file(t, "gap.xml"), "-q", "-x"))).Inventory(t.Context())
	if err != nil || len(rep.Devices) != 2 || len(rep.Stats) != 2 {
		t.Fatalf("%+v, %v", rep.Devices, err)
	}
	for i, want := range []gpu.Device{{Index: new(0), Minor: new(0)}, {Index: new(2), Minor: new(1)}} {
		d := rep.Devices[i]
		if *d.Index != *want.Index || d.Minor == nil || *d.Minor != *want.Minor {
			t.Errorf("%+v", d)
		}
	}
	if in := rep.Devices[1].Instances; len(in) != 1 || *in[0].GI != 9 {
		t.Errorf("instances: %+v", in)
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

// BenchmarkCollectOf8Cards is a heartbeat's round beside nvidia-smi's own time.
func BenchmarkCollectOf8Cards(b *testing.B) {
	fields := slices.Concat(basicFields, newerFields)
	var out strings.Builder
	out.WriteString(strings.Join(fields, ", ") + "\n")
	for i := range 8 {
		values := map[string]string{
			"index": strconv.Itoa(i), "uuid": "GPU-3d0f7a1" + strconv.Itoa(i), "pci.bus_id": fmt.Sprintf("00000000:%02X:00.0", 16*i+1),
			"name": "NVIDIA H200", "driver_version": "575.57.08", "memory.total": "143771", "memory.used": "70112",
			"utilization.gpu": "97", "temperature.gpu": "55", "power.draw": "640.18", "power.limit": "700.00",
		}
		for j, f := range fields {
			if j > 0 {
				out.WriteString(", ")
			}
			out.WriteString(cmp.Or(values[f], "[N/A]"))
		}
		out.WriteString("\n")
	}
	d := New(tool.NewReplay(query(0, out.String(), everyField)))
	for b.Loop() {
		if rep, err := d.Collect(b.Context()); err != nil || len(rep.Devices) != 8 {
			b.Fatal(len(rep.Devices), err)
		}
	}
}
