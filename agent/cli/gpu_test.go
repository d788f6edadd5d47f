package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/agent"
	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/agent/inventory/gpus"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

var update = flag.Bool("update", false, "write the golden files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// captures are the recorded nodes in testdata.
var captures = []string{"nvidia", "mixed", "broken", "none"}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// run runs the command line.
func run(t *testing.T, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	exit = Run(agent.Version{}, args, &out, &errs)
	return exit, out.String(), errs.String()
}

// printed are the tools of a recorded node. A question is recognised by the tool and its
// first argument, so that the detectors may ask for other fields than were recorded.
type printed []tool.Recorded

func (p printed) Find(name string) (string, error) {
	if slices.ContainsFunc(p, func(r tool.Recorded) bool { return r.Argv[0] == name }) {
		return "/usr/bin/" + name, nil
	}
	return "", tool.ErrNotInstalled
}

func (p printed) Run(_ context.Context, cmd tool.Command) (tool.Result, error) {
	for _, r := range p {
		if slices.Equal(question(r.Argv), question(cmd.Argv())) {
			return tool.Result{Argv: cmd.Argv(), ExitCode: r.ExitCode, Stdout: r.Stdout, Stderr: r.Stderr}, nil
		}
	}
	if _, err := p.Find(cmd.Name); err != nil {
		return tool.Result{}, err
	}
	return tool.Result{Argv: cmd.Argv(), ExitCode: 2, Stderr: []byte("no such option\n")}, nil
}

func question(argv []string) []string {
	if len(argv) < 2 {
		return argv
	}
	option, _, _ := strings.Cut(argv[1], "=")
	return []string{argv[0], option}
}

// recorded returns the node of a capture as if it were this machine.
func recorded(t *testing.T, name string) node {
	t.Helper()
	commands, err := tool.ReadRecording(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	sysfs := filepath.Join("testdata", name, "sys")
	if _, err := os.Stat(sysfs); err != nil {
		sysfs = t.TempDir()
	}
	return node{
		config: func() (config.GPU, error) { return config.Default().GPU, nil },
		machine: func(string) gpus.Machine {
			return gpus.Machine{Runner: printed(commands), Sysfs: sysfs, SeesAllCards: true}
		},
	}
}

// on runs a gpu command on a recorded node.
func on(t *testing.T, n node, args ...string) string {
	t.Helper()
	out, err := try(t, n, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func try(t *testing.T, n node, args ...string) (stdout string, err error) {
	t.Helper()
	cmd := newGPU(n)
	var out bytes.Buffer
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCommandsShowANode(t *testing.T) {
	for _, name := range captures {
		t.Run(name, func(t *testing.T) {
			n := recorded(t, name)
			golden(t, filepath.Join("testdata", name, "list.golden"), on(t, n, "list"))
			golden(t, filepath.Join("testdata", name, "topo.golden"), on(t, n, "topo"))
			golden(t, filepath.Join("testdata", name, "heartbeat.golden"), on(t, n, "list", "--json"))
		})
	}
}

func TestTheToolsOfThisMachineAreAsked(t *testing.T) {
	machine := gpus.NewMachine("", "test", nil)
	for _, d := range machine.Detectors() {
		for _, argv := range d.Commands() {
			if path, err := machine.Runner.Find(argv[0]); err == nil {
				t.Skipf("this machine has a vendor's tool of its own: %s", path)
			}
		}
	}
	dir := t.TempDir()
	script := "#!/bin/sh\necho 'GPU 0 : MTT S80 (UUID : 11111111-0000-4000-8000-0000000000b0)'\n"
	if err := os.WriteFile(filepath.Join(dir, "mthreads-gmi"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	n := recorded(t, "none")
	n.machine = func(string) gpus.Machine { machine.Sysfs = t.TempDir(); return machine }
	want := []string{"musa 11111111-0000-4000-8000-0000000000b0 MTT S80"}
	var said struct {
		GPUs []gpu.Device `json:"gpus"`
	}
	if err := json.Unmarshal([]byte(on(t, n, "list", "--json")), &said); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range said.GPUs {
		got = append(got, string(d.Type)+" "+d.UUID+" "+d.Model)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAReplaySaysWhatTheNodeSaid(t *testing.T) {
	for _, name := range captures {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("testdata", name)
			for file, args := range map[string][]string{
				"list.golden":      {"gpu", "replay", dir},
				"heartbeat.golden": {"gpu", "replay", dir, "--json"},
			} {
				want, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				exit, out, stderr := run(t, args...)
				if exit != 0 {
					t.Fatalf("exit %d: %s", exit, stderr)
				}
				if diff := cmp.Diff(string(want), out); diff != "" {
					t.Errorf("%v (-node +replay):\n%s", args, diff)
				}
			}
		})
	}
}

func TestAReplayCanBeOfOneVendor(t *testing.T) {
	_, out, _ := run(t, "gpu", "replay", filepath.Join("testdata", "mixed"), "--vendor", "nvidia", "--json")
	var said struct {
		GPUs  []gpu.Device `json:"gpus"`
		Stats []gpu.Stats  `json:"gpu_stats"`
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatal(err)
	}
	if len(said.GPUs) != 1 || said.GPUs[0].Type != gpu.NVIDIA || len(said.Stats) != 1 || said.Stats[0].Vendor != "" {
		t.Errorf("got %s", out)
	}
}

func TestAReplayOfAMatrixAloneShowsTheMatrix(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"manifest.yaml": "version: 1\ncommands:\n- argv: [nvidia-smi, topo, -m]\n  exit_code: 0\n  stdout: topo.txt\n",
		"topo.txt":      "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV4\tPIX\t0-7\t0\nGPU1\tNV4\t X \tSYS\t8-15\t1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	exit, out, stderr := run(t, "gpu", "replay", dir)
	if exit != 0 {
		t.Fatalf("exit %d: %s", exit, stderr)
	}
	want := "nvidia  GPU0  GPU1  mlx5_0  NUMA  CPUS\n" +
		"GPU0    X     NV4   PIX     0     0-7\n" +
		"GPU1    NV4   X     SYS     1     8-15\n"
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestACaptureReplaysToTheSameHeartbeatWithMaskedSerials(t *testing.T) {
	n := recorded(t, "nvidia")
	dir := filepath.Join(t.TempDir(), "capture")
	if out := on(t, n, "capture", dir); !strings.Contains(out, "nvidia-smi topo -m: exit status 0") {
		t.Errorf("got %q", out)
	}
	exit, out, stderr := run(t, "gpu", "replay", dir, "--json")
	if exit != 0 {
		t.Fatal(stderr)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "nvidia", "heartbeat.golden"))
	if err != nil {
		t.Fatal(err)
	}
	masked := strings.NewReplacer("1320000000001", "SERIAL0000001", "1320000000002", "SERIAL0000002").Replace(string(want))
	if diff := cmp.Diff(masked, out); diff != "" {
		t.Errorf("(-node +replay):\n%s", diff)
	}
	if _, err := try(t, n, "capture", dir); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a capture over another: %v", err)
	}
}

func TestWatchShowsTheNodeUntilItIsInterrupted(t *testing.T) {
	for file, show := range map[string]func(*bytes.Buffer, time.Time, gpu.Snapshot) error{
		"lines.golden":  func(b *bytes.Buffer, at time.Time, s gpu.Snapshot) error { return printLines(b, at, s) },
		"screen.golden": func(b *bytes.Buffer, at time.Time, s gpu.Snapshot) error { return printScreen(b, at.UTC(), s) },
	} {
		t.Run(file, func(t *testing.T) {
			n := recorded(t, "mixed")
			synctest.Test(t, func(t *testing.T) {
				all, err := registry(n.machine(""), config.Default().GPU)
				if err != nil {
					t.Fatal(err)
				}
				collector := gpu.NewCollector(all, gpus.Periods(time.Second, time.Minute))
				ctx, interrupt := context.WithCancel(t.Context())
				var out bytes.Buffer
				shown := 0
				err = watch(ctx, collector, time.Second, func(s gpu.Snapshot) error {
					if shown++; shown == 2 {
						interrupt()
					}
					return show(&out, time.Now(), s)
				})
				if err != nil || shown != 2 {
					t.Errorf("shown %d times, %v", shown, err)
				}
				golden(t, filepath.Join("testdata", "mixed", file), out.String())
			})
		})
	}
}

func TestWatchNeedsAPauseBetweenRounds(t *testing.T) {
	_, err := try(t, recorded(t, "none"), "watch", "--period", "1ms")
	if _, ok := errors.AsType[usageError](err); !ok || !strings.Contains(err.Error(), "--period: ") {
		t.Errorf("got %v", err)
	}
}

func TestWordsOfAToolCannotSteerTheTerminal(t *testing.T) {
	var out bytes.Buffer
	err := printCards(&out, gpu.Snapshot{
		Devices:        []gpu.Device{{Model: "a\x1b[2Jb\r\nc\u202ed"}},
		Failures:       []gpu.Failure{{UUID: "x\x07", Code: "\x1b]0;t\x07", Message: "m\n"}},
		CollectorError: "e\x1b[31m",
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\x07\r\u202e") || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("got %q", out.String())
	}
}

func TestMistakesOfTheCallersExitWithTwoAndSayWhatIsWanted(t *testing.T) {
	file := filepath.Join("testdata", "nvidia", "list.txt")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"an unknown command":              {[]string{"gpu", "lits"}, `unknown command "lits"`},
		"an argument too many":            {[]string{"gpu", "list", "x"}, "usage: "},
		"no directory to capture into":    {[]string{"gpu", "capture"}, "usage: "},
		"no directory to replay":          {[]string{"gpu", "replay"}, "usage: "},
		"an unknown vendor":               {[]string{"gpu", "replay", "--vendor", "amd", "x"}, "musa hygon cambricon biren"},
		"a parse without a vendor":        {[]string{"gpu", "parse", "--command", "nvidia-smi", file}, "--vendor and --command are required"},
		"a parse without a command":       {[]string{"gpu", "parse", "--vendor", "nvidia", file}, "--vendor and --command are required"},
		"a parse of what has no tool":     {[]string{"gpu", "parse", "--vendor", "virtual", "--command", "x", file}, "it has no tool"},
		"an exit code that is no number":  {[]string{"gpu", "parse", "--exit-code", "x", file}, "exit-code"},
		"a GPU setting that is no period": {[]string{"--set", "gpu.period=x", "gpu", "list"}, "gpu.period"},
	} {
		t.Run(name, func(t *testing.T) {
			exit, out, stderr := run(t, append([]string{"--config", os.DevNull}, c.args...)...)
			if exit != exitUsage || out != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, %q, %q", exit, out, stderr)
			}
		})
	}
}

func TestARecordingThatCannotBeReadIsAFailure(t *testing.T) {
	for _, args := range [][]string{
		{"gpu", "replay", filepath.Join(t.TempDir(), "none")},
		{"gpu", "replay", t.TempDir()},
		{"gpu", "parse", "--vendor", "nvidia", "--command", "nvidia-smi", filepath.Join(t.TempDir(), "none")},
	} {
		if exit, out, stderr := run(t, args...); exit != exitFailure || out != "" || !strings.Contains(stderr, "no such file") {
			t.Errorf("%v: exit %d, %q, %q", args, exit, out, stderr)
		}
	}
}
