package cards

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/agent/lease"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// daemon is an MPS control daemon that answers, or why it does not.
type daemon struct{ err error }

func (d daemon) Answers(context.Context) error { return d.err }

// sharing is a node with two cards, which MPS shares out.
func sharing(t *testing.T, answer error) *Cards {
	t.Helper()
	c := node(t, false)
	i := &inventory{ready: closed(), snapshot: gpu.Snapshot{Type: gpu.NVIDIA, Devices: []gpu.Device{nvidiaCard(0, "A"), nvidiaCard(1, "B")}}}
	c.Inventory, c.MPS = i, daemon{answer}
	return c
}

func share(index int, change ...func(*protocol.TaskSlice)) protocol.TaskSlice {
	s := protocol.TaskSlice{Kind: protocol.SliceNVIDIAMPS, Index: new(index)}
	for _, f := range change {
		f(&s)
	}
	return s
}

func threads(percent int) func(*protocol.TaskSlice) {
	return func(s *protocol.TaskSlice) { s.ThreadPercentage = &percent }
}

func memory(bytes int64) func(*protocol.TaskSlice) {
	return func(s *protocol.TaskSlice) { s.MemoryLimitBytes = &bytes }
}

func TestAShareOfACardMakesTheContainerAClientOfMPS(t *testing.T) {
	const gib = int64(1) << 30
	cases := map[string]struct {
		slices []protocol.TaskSlice
		env    []string
		holds  []lease.Hold
	}{
		"without limits": {
			[]protocol.TaskSlice{share(0)},
			[]string{"CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100", "CUDA_VISIBLE_DEVICES=0"},
			[]lease.Hold{{Card: "nvidia A", Slice: "mps", Shared: true}},
		},
		"with both limits, which count from 0 in the container": {
			[]protocol.TaskSlice{share(1, threads(25), memory(3*gib/2))},
			[]string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1536M", "CUDA_VISIBLE_DEVICES=0"},
			[]lease.Hold{{Card: "nvidia B", Slice: "mps", Shared: true}},
		},
		"of two cards, whose limits are in the order of the cards": {
			[]protocol.TaskSlice{share(1, threads(50), memory(2*gib)), share(0, threads(50), memory(gib))},
			[]string{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1024M,1=2048M", "CUDA_VISIBLE_DEVICES=0,1"},
			[]lease.Hold{{Card: "nvidia B", Slice: "mps", Shared: true}, {Card: "nvidia A", Slice: "mps", Shared: true}},
		},
		"of two cards, one of them limited": {
			[]protocol.TaskSlice{share(0), share(1, memory(1))},
			[]string{"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=1=1M"},
			[]lease.Hold{{Card: "nvidia A", Slice: "mps", Shared: true}, {Card: "nvidia B", Slice: "mps", Shared: true}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := sharing(t, nil)
			for way, info := range map[string]runtime.Info{"by name": c.cdiRuntime(), "spelled out": {}} {
				got, err := c.Resolve(t.Context(), wants(nil, tc.slices...), info)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.holds, got.Holds); diff != "" {
					t.Errorf("%s: holds (-want +got):\n%s", way, diff)
				}
				for _, kv := range tc.env {
					if !slices.Contains(got.Env, kv) {
						t.Errorf("%s: %s is not in %q", way, kv, got.Env)
					}
				}
				for _, m := range []string{"/tmp/nvidia-mps", "/dev/shm"} {
					if !slices.Contains(got.Mounts, runtime.Mount{Source: m, Target: m}) {
						t.Errorf("%s: %s is not among %+v", way, m, got.Mounts)
					}
				}
				if !got.HostShm {
					t.Errorf("%s: not told that it has the host's shared memory", way)
				}
			}
		})
	}
}

func TestAMemoryLimitThatNobodyNamedIsNotSet(t *testing.T) {
	got, err := sharing(t, nil).Resolve(t.Context(), wants(nil, share(0)), runtime.Info{})
	if err != nil || strings.Contains(strings.Join(got.Env, " "), "MEM_LIMIT") {
		t.Errorf("got %q, %v", got.Env, err)
	}
}

func TestSharesThatCannotBeGivenAreRefused(t *testing.T) {
	away := errors.New("there is no MPS control daemon")
	cases := map[string]struct {
		answer error
		task   protocol.Task
		want   []string
	}{
		"the daemon does not answer": {away, wants(nil, share(0)), []string{"there is no MPS control daemon"}},
		"no such card":               {nil, wants(nil, share(7)), []string{"slices[0]", "nvidia device 7"}},
		"one card twice":             {nil, wants(nil, share(0), share(0)), []string{"slices[1]", "asked for twice"}},
		"a card in MIG mode":         {nil, wants(nil, share(1)), []string{"slices[0]", "MIG mode"}},
		"a whole card beside it":     {nil, wants(first(), share(2)), []string{"MPS", "nothing else"}},
		"an instance beside it":      {nil, wants(nil, mig("MIG-1"), share(0)), []string{"MPS", "nothing else"}},
		"two limits of one process":  {nil, wants(nil, share(0, threads(10)), share(2, threads(20))), []string{"thread_percentage", "10", "20"}},
		"a limit beside none":        {nil, wants(nil, share(0, threads(10)), share(2)), []string{"thread_percentage", "10", "100"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := sharing(t, tc.answer)
			second := nvidiaCard(1, "B")
			second.MIGMode, second.Instances = "enabled", []gpu.Instance{{UUID: "MIG-1"}}
			c.Inventory = &inventory{ready: closed(), snapshot: gpu.Snapshot{Type: gpu.NVIDIA, Devices: []gpu.Device{nvidiaCard(0, "A"), second, nvidiaCard(2, "C")}}}
			_, err := c.Resolve(t.Context(), tc.task, c.cdiRuntime())
			wantUnavailable(t, err, tc.want)
		})
	}
}

func TestOnlyAShareAsksForTheDaemon(t *testing.T) {
	c := sharing(t, errors.New("it is not asked"))
	if _, err := c.Resolve(t.Context(), wants(first()), runtime.Info{}); err != nil {
		t.Error(err)
	}
}
