package mps

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var answers = []struct {
	name, command, output string
	exitCode              int
	want                  *gpu.MPS // nil: not understood
}{
	{
		"no daemon", "echo get_server_list | nvidia-cuda-mps-control", "Cannot find MPS control daemon process\n", 1,
		&gpu.MPS{Daemon: new(false)},
	},
	{
		"a daemon without a server answers with nothing", "echo get_server_list | nvidia-cuda-mps-control", "", 0,
		&gpu.MPS{Daemon: new(true)},
	},
	{
		"servers, one a line", "echo 'get_server_list' | sudo nvidia-cuda-mps-control", "811\n812\n", 0,
		&gpu.MPS{Daemon: new(true), Servers: []int{811, 812}},
	},
	{
		"clients of a server", `echo "get_client_list 811" | nvidia-cuda-mps-control`, "9001 9002\n", 0,
		&gpu.MPS{Daemon: new(true), Clients: map[int][]int{811: {9001, 9002}}},
	},
	{
		"the probe on standard input tells itself", "nvidia-cuda-mps-control", "50.0\n", 0,
		&gpu.MPS{Daemon: new(true), ThreadPercent: new(50.0)},
	},
	{
		"numbers that nobody asked for say only that it answered", "nvidia-cuda-mps-control", "811\n", 0,
		&gpu.MPS{Daemon: new(true)},
	},
	{
		"a second daemon", "nvidia-cuda-mps-control -d", "An instance of this daemon is already running\n", 1,
		&gpu.MPS{Daemon: new(true)},
	},
	{
		"the table of clients, one of which is on two devices", "echo ps | nvidia-cuda-mps-control",
		"PID   ID   SERVER  DEVICE  NAMESPACE  COMMAND  ATTRIBUTES\n9001  1    811     GPU-5a  4026  ./a.out -n 3\n" +
			"9001  2    811     GPU-5b  4026  ./a.out -n 3\n9002  1    812     GPU-5b  4026  python\n", 0,
		&gpu.MPS{Daemon: new(true), Clients: map[int][]int{811: {9001}, 812: {9002}}},
	},
	{
		"the table of clients without one", "echo ps | nvidia-cuda-mps-control",
		"PID   ID   SERVER  DEVICE  NAMESPACE  COMMAND\n", 0,
		&gpu.MPS{Daemon: new(true)},
	},
	{"words are no answer", "echo get_server_list | nvidia-cuda-mps-control", "Failed: 3\n", 0, nil},
	{"silence with a failed status", "echo get_server_list | nvidia-cuda-mps-control", "", 1, nil},
	{"a percentage over 100", "echo get_default_active_thread_percentage | nvidia-cuda-mps-control", "250.0\n", 0, nil},
	{
		"a session", "bash",
		"$ echo get_server_list | nvidia-cuda-mps-control\n811\n\n$ echo get_client_list 811 | nvidia-cuda-mps-control\n9001\n", 0,
		&gpu.MPS{Daemon: new(true), Servers: []int{811}, Clients: map[int][]int{811: {9001}}},
	},
	{
		"the daemon's log", "cat control.log",
		"[2025-02-03 04:05:06.007 Control  4242] Starting control daemon using socket /run/mps/0/control\n", 0,
		&gpu.MPS{Daemon: new(true), PID: new(4242), PipeDirectory: "/run/mps/0"},
	},
	{
		"a client's error", "python train.py", "RuntimeError: CUDA error: 807: the MPS server is not ready\n", 1,
		&gpu.MPS{ClientError: new(807)},
	},
	{
		"a client's error by its name", "./a.out", "cuInit: CUDA_ERROR_MPS_CONNECTION_FAILED\n", 1,
		&gpu.MPS{ClientError: new(805)},
	},
}

func TestAnAnswerMeansWhatWasAsked(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			p, ok, err := Parse(text.SplitCommand(c.command), c.exitCode, []byte(c.output))
			if !ok || (err == nil) != (c.want != nil) {
				t.Fatalf("ok %v, error %v", ok, err)
			}
			if diff := cmp.Diff(c.want, p.MPS, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsNotAboutMPSIsLeftToOthers(t *testing.T) {
	for _, words := range []string{"", "100.0\n", "NVIDIA-SMI 580.1", "error: 805\n"} {
		if _, ok, _ := Parse([]string{"nvidia-smi"}, 0, []byte(words)); ok {
			t.Errorf("%q", words)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range answers {
		f.Add(c.command, c.exitCode, []byte(c.output))
	}
	f.Fuzz(func(t *testing.T, command string, exitCode int, output []byte) {
		p, ok, err := Parse(text.SplitCommand(command), exitCode, output)
		if len(p.GPUs)+len(p.Stats)+len(p.Failures) > 0 {
			t.Error("cards from MPS")
		}
		if known := ok && err == nil; known != (p.MPS != nil) {
			t.Errorf("ok %v, error %v, %+v", ok, err, p.MPS)
		}
		if m := p.MPS; m != nil && m.ThreadPercent != nil && (*m.ThreadPercent < 0 || *m.ThreadPercent > 100) {
			t.Errorf("%v %%", *m.ThreadPercent)
		}
	})
}
