package cards

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/agent/lease"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi"
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/cdi/spec"
	"github.com/heteroflow/node-agent/gpu/visibility"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inventory is a node's cards as its detectors found them.
type inventory struct {
	ready chan struct{}

	mu       sync.Mutex
	snapshot gpu.Snapshot
	next     []gpu.Snapshot // what new looks will find; none: the same
	renewed  int
}

func (i *inventory) Ready() <-chan struct{} { return i.ready }

func (i *inventory) Snapshot() gpu.Snapshot {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.snapshot
}

func (i *inventory) Renew(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.renewed++
	if len(i.next) > 0 {
		i.snapshot, i.next = i.next[0], i.next[1:]
	}
	return ctx.Err()
}

func (i *inventory) set(s gpu.Snapshot) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.snapshot = s
}

// source makes specs of nodes that every host has.
type source struct{ hook bool }

func (s source) Make(_ context.Context, _ gpu.Vendor, devices []gpu.Device) (spec.Made, error) {
	made := &specs.Spec{}
	for _, d := range devices {
		node := &specs.DeviceNode{Path: "/dev/card" + d.UUID, HostPath: "/dev/null"}
		made.Devices = append(made.Devices, specs.Device{Name: d.UUID, ContainerEdits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{node}}})
		for _, i := range d.Instances {
			made.Devices = append(made.Devices, specs.Device{Name: i.UUID, ContainerEdits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{node}}})
		}
	}
	made.ContainerEdits.Env = []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "NVIDIA_VISIBLE_DEVICES=void"}
	made.ContainerEdits.Mounts = []*specs.Mount{{HostPath: "/etc/hostname", ContainerPath: "/vendor", Options: []string{"ro"}}}
	if s.hook {
		made.ContainerEdits.Hooks = []*specs.Hook{{HookName: "createContainer", Path: "/hook", Args: []string{"hook", "ldcache"}}}
	}
	return spec.Made{Spec: made}, nil
}

func nvidiaCard(index int, uuid string) gpu.Device {
	return gpu.Device{Index: new(index), UUID: uuid, Vendor: gpu.NVIDIA, Type: gpu.NVIDIA}
}

// node is one with two cards, of which the second has two MIG instances.
func node(t *testing.T, hook bool) *Cards {
	t.Helper()
	second := nvidiaCard(1, "B")
	second.Instances = []gpu.Instance{{UUID: "MIG-1"}, {UUID: "MIG-2"}}
	i := &inventory{ready: make(chan struct{}), snapshot: gpu.Snapshot{Type: gpu.NVIDIA, Devices: []gpu.Device{nvidiaCard(0, "A"), second}}}
	close(i.ready)
	return New(Options{
		Inventory: i, Period: time.Minute, Log: zap.NewNop(),
		Generator: &cdi.Generator{Dir: t.TempDir(), Sources: map[gpu.Vendor]spec.Source{gpu.NVIDIA: source{hook}}},
	})
}

func wants(devices []protocol.TaskDevice, slices ...protocol.TaskSlice) protocol.Task {
	return protocol.Task{ID: "1", Devices: devices, Slices: slices}
}

func first() []protocol.TaskDevice { return []protocol.TaskDevice{{Index: new(0)}} }

func mig(uuid string) protocol.TaskSlice {
	return protocol.TaskSlice{Kind: protocol.SliceNVIDIAMIG, UUID: uuid}
}

func (c *Cards) cdiRuntime() runtime.Info {
	return runtime.Info{CDI: true, CDIDirs: []string{"/etc/cdi", c.Generator.Dir}}
}

func TestATaskWithoutCardsGetsNone(t *testing.T) {
	c := New(Options{Inventory: &inventory{}}) // which it does not even wait for
	got, err := c.Resolve(t.Context(), wants(nil), runtime.Info{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(taskcontainer.Devices{Env: visibility.Env(nil)}, got); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(strings.Join(got.Env, " "), "NVIDIA_VISIBLE_DEVICES=void") {
		t.Errorf("environment %q", got.Env)
	}
}

func TestARuntimeThatReadsTheSpecsIsToldNames(t *testing.T) {
	c := node(t, true)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(c.Generator.Dir, link); err != nil {
		t.Fatal(err)
	}
	got, err := c.Resolve(t.Context(), wants(first(), mig("MIG-2")), runtime.Info{CDI: true, CDIDirs: []string{"/etc/cdi", link}})
	if err != nil {
		t.Fatal(err)
	}
	null := func(path string) taskcontainer.Node {
		return taskcontainer.Node{Path: path, Type: "c", Major: 1, Minor: 3}
	}
	want := taskcontainer.Devices{
		Holds:  []lease.Hold{{Card: "nvidia A"}, {Card: "nvidia B", Slice: "MIG-2"}},
		CDI:    []string{"nvidia.heteroflow.io/gpu=A", "nvidia.heteroflow.io/gpu=MIG-2"},
		Env:    visibility.Env(map[gpu.Vendor]int{gpu.NVIDIA: 2}),
		Expect: []taskcontainer.Node{null("/dev/cardA"), null("/dev/cardB")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(filepath.Join(c.Generator.Dir, "heteroflow-nvidia.json")); err != nil {
		t.Errorf("the spec is not there before the container is made: %v", err)
	}
}

func TestARuntimeThatDoesNotIsToldEachNode(t *testing.T) {
	c := node(t, false)
	for name, info := range map[string]runtime.Info{
		"one without CDI":               {},
		"one that looks somewhere else": {CDI: true, CDIDirs: []string{"/etc/cdi"}},
		"one whose CDI is switched off": {CDIDirs: []string{c.Generator.Dir}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.Resolve(t.Context(), wants(first()), info)
			if err != nil {
				t.Fatal(err)
			}
			want := taskcontainer.Devices{
				Holds:  []lease.Hold{{Card: "nvidia A"}},
				Nodes:  []runtime.Device{{HostPath: "/dev/null", Path: "/dev/cardA", Permissions: "rwm"}},
				Mounts: []runtime.Mount{{Source: "/etc/hostname", Target: "/vendor", ReadOnly: true}},
				Env:    append(visibility.Env(map[gpu.Vendor]int{gpu.NVIDIA: 1}), "CUDA_DEVICE_ORDER=PCI_BUS_ID"),
				Expect: []taskcontainer.Node{{Path: "/dev/cardA", Type: "c", Major: 1, Minor: 3}},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatCannotBeGivenIsGPUUnavailable(t *testing.T) {
	cases := map[string]struct {
		task protocol.Task
		cdi  bool
		want []string
	}{
		"no such card":             {wants([]protocol.TaskDevice{{Index: new(0)}, {Index: new(9)}}), true, []string{"devices[1]", "nvidia device 9", "heteroflow-nvidia.json"}},
		"no such vendor here":      {wants([]protocol.TaskDevice{{Vendor: protocol.DeviceAscend, Index: new(0)}}), true, []string{"ascend device 0", "heteroflow-ascend.json"}},
		"the wrong uuid":           {wants([]protocol.TaskDevice{{Index: new(0), UUID: "B"}}), true, []string{"index 1"}},
		"no such instance":         {wants(nil, mig("MIG-9")), true, []string{"slices[0]", "MIG-9"}},
		"one card under two names": {wants([]protocol.TaskDevice{{Index: new(0)}, {UUID: "A"}}), true, []string{"devices[1]", "asked for twice"}},
		"a kind of slice":          {wants(nil, protocol.TaskSlice{Kind: protocol.SliceHygonHAMi, Index: new(0), VDevID: new(0)}), true, []string{"slices[0]", "hygon-hami"}},
		"a hook, without CDI":      {wants(first()), false, []string{"createContainer hook hook ldcache", "nvidia.heteroflow.io/gpu=A"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := node(t, true)
			var info runtime.Info
			if tc.cdi {
				info = c.cdiRuntime()
			}
			_, err := c.Resolve(t.Context(), tc.task, info)
			wantUnavailable(t, err, tc.want)
		})
	}
}

func TestACardIsRefusedOnlyWhenThreeLooksInARowSpeakAgainstIt(t *testing.T) {
	good := gpu.Snapshot{Type: gpu.NVIDIA, Devices: []gpu.Device{nvidiaCard(0, "A")}}
	none, failed := gpu.Snapshot{Type: gpu.NVIDIA}, good
	failed.Failures = []gpu.Failure{{Index: new(0), UUID: "A", Code: "lost", Message: "GPU is lost"}}
	cases := map[string]struct {
		looks   []gpu.Snapshot
		renewed int
		refused bool
	}{
		"a good one":                            {[]gpu.Snapshot{good}, 0, false},
		"one that failed in one round":          {[]gpu.Snapshot{failed, good}, 1, false},
		"one that was not listed in one round":  {[]gpu.Snapshot{none, good}, 1, false},
		"one that failed in two rounds":         {[]gpu.Snapshot{failed, failed, good}, 2, false},
		"one that failed in three rounds":       {[]gpu.Snapshot{failed, failed, failed, good}, 2, true},
		"one that is not listed in three looks": {[]gpu.Snapshot{none, none, none, good}, 2, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := node(t, false)
			i := &inventory{ready: closed(), snapshot: tc.looks[0], next: tc.looks[1:]}
			c.Inventory = i
			_, err := c.Resolve(t.Context(), wants(first()), runtime.Info{})
			if tc.refused {
				wantUnavailable(t, err, []string{"nvidia device 0"})
			} else if err != nil {
				t.Error(err)
			}
			if i.renewed != tc.renewed {
				t.Errorf("the cards were looked at again %d times, want %d", i.renewed, tc.renewed)
			}
		})
	}
	t.Run("an end of the task meanwhile ends the looking", func(t *testing.T) {
		c := node(t, false)
		c.Inventory = &inventory{ready: closed()}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.Resolve(ctx, wants(first()), runtime.Info{}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// wantUnavailable holds that a task was refused its cards, in words that have all of want.
func wantUnavailable(t *testing.T, err error, want []string) {
	t.Helper()
	refused, ok := errors.AsType[*taskcontainer.RefusedError](err)
	if !ok || refused.Reason != protocol.ReasonGPUUnavailable {
		t.Fatalf("got %v, want gpu_unavailable", err)
	}
	for _, words := range want {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("%q does not say %q", err, words)
		}
	}
}

func TestSpecsThatCannotBeWrittenMakeCardsUnavailable(t *testing.T) {
	c := node(t, false)
	info := c.cdiRuntime()
	if err := errors.Join(os.Remove(c.Generator.Dir), os.WriteFile(c.Generator.Dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := c.Resolve(t.Context(), wants(first()), info)
	if refused, ok := errors.AsType[*taskcontainer.RefusedError](err); !ok || refused.Reason != protocol.ReasonGPUUnavailable {
		t.Errorf("got %v, want gpu_unavailable", err)
	}
}

func TestTheFirstInventoryIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := node(t, false)
		i := &inventory{ready: make(chan struct{})}
		c.Inventory = i
		time.AfterFunc(time.Minute, func() {
			i.set(gpu.Snapshot{Type: gpu.NVIDIA, Devices: []gpu.Device{nvidiaCard(0, "A")}})
			close(i.ready)
		})
		if _, err := c.Resolve(t.Context(), wants(first()), runtime.Info{}); err != nil {
			t.Error(err)
		}
		c.Inventory = &inventory{ready: make(chan struct{})}
		unwanted := errors.New("unwanted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(unwanted) })
		if _, err := c.Resolve(ctx, wants(first()), runtime.Info{}); !errors.Is(err, unwanted) {
			t.Errorf("got %v, want why the wait was given up", err)
		}
	})
}

func TestTheFilesFollowTheInventoryWithoutATask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		c := node(t, false)
		c.Log = zap.New(core)
		cards := &inventory{ready: closed(), snapshot: c.Inventory.Snapshot()}
		c.Inventory = cards
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { c.Run(ctx); close(done) }()
		file := filepath.Join(c.Generator.Dir, "heteroflow-nvidia.json")
		time.Sleep(time.Second)
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
		cards.set(gpu.Snapshot{})
		time.Sleep(5 * time.Minute)
		if _, err := os.Stat(file); err == nil {
			t.Error("the file of cards that are gone is there still")
		}
		if err := errors.Join(os.Remove(c.Generator.Dir), os.WriteFile(c.Generator.Dir, nil, 0o600)); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * time.Minute)
		if n := logs.FilterMessage("CDI specs cannot be kept current").Len(); n != 1 {
			t.Errorf("the same trouble is logged %d times", n)
		}
		cancel()
		<-done
	})
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

func TestCardsThatCannotBeGivenAreLoggedOnce(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	c := New(Options{
		Generator: &cdi.Generator{Dir: t.TempDir(), Host: hostfs.FS{Root: t.TempDir()}}, Log: zap.New(core),
		Inventory: &inventory{ready: closed(), snapshot: gpu.Snapshot{Devices: []gpu.Device{nvidiaCard(0, "A")}}},
	})
	for range 3 {
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if logs.Len() != 1 || !strings.Contains(logs.All()[0].Message, "cannot be given to tasks") {
		t.Errorf("logged %v", logs.All())
	}
}

func TestACardIsTheSameOverRestarts(t *testing.T) {
	cases := map[string]gpu.Device{
		"nvidia GPU-1":               {Vendor: gpu.NVIDIA, UUID: "GPU-1", BusID: "0000:01:00.0", Index: new(3)},
		"ascend 0000:01:00.0 chip 1": {Vendor: gpu.Ascend, BusID: "0000:01:00.0", Chip: new(1), Index: new(3)},
		"hygon 0000:01:00.0":         {Vendor: gpu.Hygon, BusID: "0000:01:00.0", Index: new(3)},
		"biren card 3":               {Vendor: gpu.Biren, Index: new(3)},
	}
	for want, d := range cases {
		if got := cardID(d); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
