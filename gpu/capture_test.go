package gpu

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu/text"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// lineTool is a detector of a made-up tool that prints "card <index> <bus id>",
// "temp <index> <degrees>", "serial <index> <serial>" and "error <text>" lines.
type lineTool struct{ run tool.Runner }

func (lineTool) Vendor() Vendor { return NVIDIA }

func (d lineTool) Inventory(ctx context.Context) (Report, error) {
	return Survey(ctx, NVIDIA, d.run, d.Parse, command("list"), command("temps"), command("newer-option"))
}

func (d lineTool) Collect(ctx context.Context) (Report, error) {
	return Survey(ctx, NVIDIA, d.run, d.Parse, command("list"))
}

func (lineTool) Commands() [][]string { return [][]string{{"line-smi", "serials"}, {"any-smi"}} }

func (lineTool) Parse(_ []string, _ int, out []byte) (Parsed, error) {
	var p Parsed
	for _, line := range text.Lines(out) {
		words := append(strings.Fields(line), "", "", "")
		switch words[0] {
		case "card":
			p.GPUs = append(p.GPUs, Device{Index: text.Int(words[1]), BusID: text.BusID(words[2])})
		case "temp":
			p.Stats = append(p.Stats, Stats{Index: text.Int(words[1]), Temperature: text.Celsius(words[2])})
		case "serial":
			p.GPUs = append(p.GPUs, Device{Index: text.Int(words[1]), Serial: words[2]})
		case "matrix":
			p.Topology = &Topology{Kind: string(NVIDIA), Links: []Link{{A: 0, B: 1, Type: "SYS"}}}
		case "error":
			p.CollectorError = &CollectorError{Code: "tool_says", Message: words[1]}
		case "none":
		default:
			return Parsed{}, errors.New("unknown form")
		}
	}
	return p, nil
}

func command(args ...string) tool.Command { return tool.Command{Name: "line-smi", Args: args} }

func printed(exit int, out string, args ...string) tool.Recorded {
	return tool.Recorded{Result: tool.Result{
		Argv: append([]string{"line-smi"}, args...), ExitCode: exit, Stdout: []byte(out),
	}}
}

func alias(exit int, out string) tool.Recorded {
	return tool.Recorded{Result: tool.Result{Argv: []string{"any-smi"}, ExitCode: exit, Stdout: []byte(out)}}
}

func wrapped(out string, argv ...string) tool.Recorded {
	return tool.Recorded{Result: tool.Result{Argv: argv, Stdout: []byte(out)}}
}

const twoCards = "card 0 0000:01:00.0\ncard 1 0000:02:00.0"

func TestSurveyNeedsOnlyTheRequiredCommand(t *testing.T) {
	hung := printed(-1, "", "temps")
	hung.Error = "hung"
	for _, c := range []struct {
		name    string
		prints  []tool.Recorded
		devices int
		temps   int
		code    string // of the collector error
		failure bool   // Survey itself fails
	}{
		{"all commands answer", []tool.Recorded{
			printed(0, twoCards, "list"), printed(0, "temp 1 40C\ntemp 0 41C", "temps"),
		}, 2, 2, "", false},
		{"an optional one is not there", []tool.Recorded{printed(0, twoCards, "list")}, 2, 0, "", false},
		{"an optional one fails", []tool.Recorded{
			printed(0, twoCards, "list"), printed(2, "Field is not valid", "temps"),
		}, 2, 0, "", false},
		{"the required one prints rows with a non-zero status", []tool.Recorded{printed(14, twoCards, "list")}, 2, 0, "", false},
		{"the required one says that there is no card", []tool.Recorded{printed(0, "none", "list")}, 0, 0, "", false},
		{"the required one says what is wrong", []tool.Recorded{printed(0, "error driver", "list")}, 0, 0, "tool_says", false},
		{"the required one says nothing", []tool.Recorded{printed(0, " \n", "list")}, 0, 0, CodeNoOutput, false},
		{"the required one fails without a known word", []tool.Recorded{printed(9, "?!", "list")}, 0, 0, CodeExitStatus, false},
		{
			"the required one fails though it says that there is no card",
			[]tool.Recorded{printed(9, "none", "list")},
			0, 0, CodeExitStatus, false,
		},
		{"the required one prints what nobody knows", []tool.Recorded{printed(0, "?!", "list")}, 0, 0, CodeUnrecognised, false},
		{"the required one is not there", []tool.Recorded{printed(0, "temp 0 40", "temps")}, 0, 0, "", true},
		{"an optional one hangs", []tool.Recorded{printed(0, twoCards, "list"), hung}, 2, 0, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			rep, err := lineTool{tool.NewReplay(c.prints...)}.Inventory(t.Context())
			if (err != nil) != c.failure {
				t.Fatal(err)
			}
			code := ""
			if rep.CollectorError != nil {
				code = rep.CollectorError.Code
			}
			if len(rep.Devices) != c.devices || len(rep.Stats) != c.temps || code != c.code {
				t.Errorf("got %+v", rep)
			}
		})
	}
}

func TestAnOptionalCommandThatComesTooLateTakesNothingAway(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	run := cancelAfter{tool.NewReplay(printed(0, twoCards, "list"), printed(0, "temp 0 40", "temps")), cancel}
	rep, err := lineTool{run}.Inventory(ctx)
	if err != nil || len(rep.Devices) != 2 || len(rep.Stats) != 0 {
		t.Errorf("got %+v, %v", rep, err)
	}
}

// cancelAfter ends the context after the first command.
type cancelAfter struct {
	tool.Runner

	cancel context.CancelFunc
}

func (c cancelAfter) Run(ctx context.Context, cmd tool.Command) (tool.Result, error) {
	defer c.cancel()
	return c.Runner.Run(ctx, cmd)
}

func TestCombineJoinsTheSameCardOfSeveralOutputs(t *testing.T) {
	got := Combine(Ascend,
		Parsed{
			GPUs:  []Device{{Index: new(0), BusID: bus(0)}, {Index: new(1), BusID: bus(1), Model: "first"}},
			Stats: []Stats{{Index: new(1), Power: new(70.0)}},
		},
		Parsed{
			GPUs:     []Device{{UUID: "u1", BusID: bus(1), Model: "second", DriverVersion: "24.1"}, {Index: new(2), BusID: bus(2)}},
			Stats:    []Stats{{UUID: "u1", Power: new(71.0), Temperature: new(40.0)}},
			Failures: []Failure{{BusID: bus(1), Code: "alarm", Message: "x"}, {UUID: "u1", Code: "alarm", Message: "again"}},
			Capabilities: []Capability{
				{Index: new(1), MIGCapable: true, SliceKinds: []string{"nvidia-mig"}},
				{Index: new(1), MPSCapable: true, SliceKinds: []string{"nvidia-mig", "nvidia-mps"}},
			},
		},
	)
	d := func(i int) Device {
		return Device{Index: new(i), BusID: bus(i), Vendor: Ascend, Type: Ascend}
	}
	joined := d(1)
	joined.UUID, joined.Model, joined.DriverVersion = "u1", "first", "24.1"
	want := Report{
		Vendor: Ascend, DriverVersion: "24.1", Devices: []Device{d(0), joined, d(2)},
		Stats:    []Stats{{Index: new(1), UUID: "u1", Power: new(70.0), Temperature: new(40.0)}},
		Failures: []Failure{{Index: new(1), UUID: "u1", BusID: bus(1), Code: "alarm", Message: "x"}},
		Capabilities: []Capability{
			{Index: new(1), MIGCapable: true, MPSCapable: true, SliceKinds: []string{"nvidia-mig", "nvidia-mps"}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCombineKeepsTheChipsOfACardApart(t *testing.T) {
	chip := func(i int) Device { return Device{Index: new(i), BusID: bus(0), Card: new(0), Chip: new(i)} }
	got := Combine(Ascend, Parsed{GPUs: []Device{chip(0), chip(1)}}, Parsed{GPUs: []Device{chip(1), chip(0)}})
	if len(got.Devices) != 2 {
		t.Errorf("%d devices", len(got.Devices))
	}
}

func TestCombineTakesTheWholeNameForOneThatWasCut(t *testing.T) {
	named := func(model string) Parsed { return Parsed{GPUs: []Device{{Index: new(0), Model: model}}} }
	for _, c := range []struct{ first, second, want string }{
		{"NVIDIA A100-SXM...", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB"},
		{"NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM...", "NVIDIA A100-SXM4-40GB"},
		{"Tesla V100...", "NVIDIA A100", "Tesla V100..."},
		{"", "NVIDIA A100", "NVIDIA A100"},
	} {
		if got := Combine(NVIDIA, named(c.first), named(c.second)).Devices[0].Model; got != c.want {
			t.Errorf("%q and %q: %q", c.first, c.second, got)
		}
	}
}

func TestCombineFindsADeviceThatAnotherOutputNumbersOtherwise(t *testing.T) {
	chip := func(index, card, chip int) Device {
		return Device{Index: new(index), Card: new(card), Chip: new(chip)}
	}
	table := Parsed{GPUs: []Device{chip(0, 2, 0), chip(1, 2, 1), chip(2, 5, 0)}}
	named := func(index int, uuid, bus string) Device { return Device{Index: new(index), UUID: uuid, BusID: bus} }
	warm := func(index int) []Stats { return []Stats{{Index: new(index), Temperature: new(40.0)}} }
	for _, c := range []struct {
		name  string
		parts []Parsed
		cards int
		warm  int // the number of the one that is
	}{
		{"by card and chip", []Parsed{table, {GPUs: []Device{chip(0, 5, 0)}, Stats: warm(0)}}, 3, 2},
		{"by the card alone, where it has one chip", []Parsed{
			table, {GPUs: []Device{{Index: new(0), Card: new(5)}}, Stats: warm(0)},
		}, 3, 2},
		{"by uuid and bus id", []Parsed{
			{GPUs: []Device{named(0, "u0", bus(0)), named(3, "u3", bus(3))}},
			{GPUs: []Device{named(0, "u0", bus(0)), named(1, "u3", bus(3))}, Stats: warm(1)},
		}, 2, 3},
		{"not by the card alone, where it has two", []Parsed{
			table, {GPUs: []Device{{Index: new(0), Card: new(2)}}, Stats: warm(0)},
		}, 3, 0},
		{"not two of one output", []Parsed{{GPUs: []Device{chip(0, 5, 0), chip(1, 5, 0)}, Stats: warm(1)}}, 2, 1},
		{"not of another card, which gets a number of its own", []Parsed{
			{GPUs: []Device{chip(0, 2, 0)}}, {GPUs: []Device{chip(0, 5, 0)}, Stats: warm(0)},
		}, 2, 1},
		{"not with another address", []Parsed{
			{GPUs: []Device{{Index: new(0), Card: new(5), Chip: new(0), BusID: bus(1)}}},
			{GPUs: []Device{{Index: new(0), Card: new(5), Chip: new(0), BusID: bus(2)}}, Stats: warm(0)},
		}, 2, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Combine(Ascend, c.parts...)
			if len(r.Devices) != c.cards || len(r.Stats) != 1 || *r.Stats[0].Index != c.warm {
				t.Errorf("got %+v", r)
			}
			numbers := map[int]bool{}
			for _, d := range r.Devices {
				numbers[*d.Index] = true
			}
			if len(numbers) != c.cards {
				t.Errorf("%d numbers of %d cards", len(numbers), c.cards)
			}
		})
	}
}

func TestACaptureReplaysToTheSameSnapshotAsTheMachine(t *testing.T) {
	root := sysfs(t, h100(0), h100(1), h100(2))
	rec := tool.NewRecorder(tool.NewReplay(
		printed(0, twoCards, "list"), printed(0, "temp 0 40C", "temps"), printed(0, "serial 0 SER123456789", "serials")))
	machine := []Detector{lineTool{rec}, fallback()}
	live := registry(t, Config{Sysfs: root, SeesAllCards: true, Detectors: machine}).Detect(t.Context(), second)

	dir := filepath.Join(t.TempDir(), "capture")
	if err := Capture(t.Context(), rec, machine, root, dir); err != nil {
		t.Fatal(err)
	}
	replay, err := tool.OpenReplay(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Replay(t.Context(), replay, []Detector{lineTool{replay}, fallback()}, dir)
	if err != nil {
		t.Fatal(err)
	}
	// The capture also holds the command that only a bug report needs.
	if got.Devices[0].Serial == "" {
		t.Error("the further commands were not recorded")
	}
	got.Devices[0].Serial = ""
	got.Vendors, live.Vendors = nil, nil // ages
	if diff := cmp.Diff(live, got); diff != "" {
		t.Errorf("(-machine +capture):\n%s", diff)
	}
	if len(got.Failures) != 1 || got.Failures[0].BusID != bus(2) {
		t.Errorf("the card that only the bus shows: %+v", got.Failures)
	}
}

func TestACaptureThatLacksTheDetectorsOwnCommandIsUnderstoodAllTheSame(t *testing.T) {
	for _, c := range []struct {
		name    string
		prints  []tool.Recorded
		typ     Vendor
		devices int
		failed  bool
	}{
		{"another command lists the cards", []tool.Recorded{printed(0, "serial 0 S1\nserial 1 S2", "serials")}, NVIDIA, 2, false},
		{"one of them failed", []tool.Recorded{
			printed(0, "serial 0 S1", "serials"), printed(1, "error x", "x"),
		}, NVIDIA, 1, false},
		{"all of them failed", []tool.Recorded{printed(9, "error x", "x")}, NVIDIA, 0, true},
		{"the tool was run in a container, and with sudo", []tool.Recorded{
			wrapped("serial 0 S1", "docker", "run", "--rm", "-e", "A=b", "image:1", "/opt/bin/line-smi", "serials"),
			wrapped("serial 1 S2", "sudo", "line-smi", "serials"),
		}, NVIDIA, 2, false},
		{"it failed in words that nobody knows", []tool.Recorded{printed(9, "?!", "x")}, NVIDIA, 0, true},
		{"it failed without a word", []tool.Recorded{printed(9, "", "x")}, NVIDIA, 0, true},
		{"so did another of its names, which others use, too", []tool.Recorded{alias(9, "?!")}, Virtual, 1, false},
		{"that name in its own words", []tool.Recorded{alias(0, "serial 0 S1")}, NVIDIA, 1, false},
		{"a program that only mentions it", []tool.Recorded{{Result: tool.Result{
			Argv: []string{"which", "line-smi"}, ExitCode: 1, Stdout: []byte("no line-smi in /bin"),
		}}}, Virtual, 1, false},
		{"a tool of that name of another maker", []tool.Recorded{printed(0, "Intel", "discovery")}, Virtual, 1, false},
		{"nothing was recorded", nil, Virtual, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			replay := tool.NewReplay(c.prints...)
			s, err := Replay(t.Context(), replay, []Detector{lineTool{replay}, fallback()}, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if s.Type != c.typ || len(s.Devices) != c.devices || (s.CollectorError != "") != c.failed {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestALoneMatrixIsShown(t *testing.T) {
	replay := tool.NewReplay(printed(0, "matrix", "topo"))
	s, err := Replay(t.Context(), replay, []Detector{lineTool{replay}, fallback()}, t.TempDir())
	if err != nil || s.Type != NVIDIA || s.Topology == nil || len(s.Devices) != 0 {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestTheOutputWithMostCardsNumbersThem(t *testing.T) {
	replay := tool.NewReplay(printed(0, "card 0 0000:02:00.0\nserial 0 S2", "one"), printed(0, twoCards+"\nserial 0 S1", "two"))
	s, err := Replay(t.Context(), replay, []Detector{lineTool{replay}}, t.TempDir())
	if err != nil || len(s.Devices) < 2 || s.Devices[0].BusID != bus(0) {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestACaptureWritesOnlyWhatItMay(t *testing.T) {
	rec := tool.NewRecorder(tool.NewReplay(printed(0, twoCards, "list")))
	dir := t.TempDir()
	if err := Capture(t.Context(), rec, []Detector{lineTool{rec}}, "", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, captureSysfs)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("PCI facts of cards that are not the agent's to see: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Capture(ctx, rec, []Detector{lineTool{rec}}, "", t.TempDir()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func BenchmarkLatest(b *testing.B) {
	var devices []Device
	for i := range 8 {
		devices = append(devices, card(NVIDIA, i))
	}
	r, err := NewRegistry(Config{Sysfs: b.TempDir(), Detectors: []Detector{detector(NVIDIA, lists(devices...)), fallback()}})
	if err != nil {
		b.Fatal(err)
	}
	c := NewCollector(r, periods)
	for i, d := range r.detectors {
		c.keep(i, 1, r.round(b.Context(), d, nil))
	}
	for b.Loop() {
		if s := c.Latest(); len(s.Devices) != 8 {
			b.Fatal(s)
		}
	}
}
