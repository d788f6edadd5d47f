package taskcontainer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/heteroflow/node-agent/agent/lease"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

func TestWhichCardsATaskSeesIsNotForItToSay(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	env := []string{
		"NVIDIA_VISIBLE_DEVICES=all", "A=1", "CUDA_VISIBLE_DEVICES=3", "ASCEND_VISIBLE_DEVICES=0-7", "ROCR_VISIBLE_DEVICES=",
		"METHERDS_VISIBLE_DEVICES=all", "CUDA_DEVICE_ORDER=FASTEST_FIRST", "NVIDIA_MIG_CONFIG_DEVICES=all",
	}
	devices := taskcontainer.Devices{Env: []string{"NVIDIA_VISIBLE_DEVICES=void", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}}
	got, err := builder(t, share(t)).Build(task(func(t *protocol.Task) { t.Env = env }), devices, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"A=1", "NVIDIA_VISIBLE_DEVICES=void", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}
	if diff := cmp.Diff(want, got.Spec.Env); diff != "" {
		t.Error(diff)
	}
	var dropped []string
	for _, entry := range logs.All() {
		name, ok := entry.ContextMap()["name"].(string)
		if !ok {
			t.Fatalf("logged %v", entry)
		}
		dropped = append(dropped, name)
	}
	if diff := cmp.Diff([]string{
		"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
		"METHERDS_VISIBLE_DEVICES", "NVIDIA_MIG_CONFIG_DEVICES",
	}, dropped); diff != "" {
		t.Errorf("logged as dropped (-want +got):\n%s", diff)
	}
}

func TestDevicesBecomePartOfTheContainer(t *testing.T) {
	devices := taskcontainer.Devices{
		Holds:  []lease.Hold{{Card: "nvidia GPU-1"}, {Card: "nvidia GPU-2", Slice: "MIG-1"}},
		CDI:    []string{"nvidia.heteroflow.io/gpu=GPU-1"},
		Nodes:  []runtime.Device{{HostPath: "/dev/a", Path: "/dev/b", Permissions: "rw"}},
		Mounts: []runtime.Mount{{Source: "/usr/bin/tool", Target: "/usr/bin/tool", ReadOnly: true}},
		Groups: []uint32{44},
	}
	b, err := builder(t, share(t)).Build(task(), devices, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	got := taskcontainer.Devices{
		Holds: b.Supervision.Holds, CDI: b.Spec.CDIDevices, Nodes: b.Spec.Devices, Mounts: b.Spec.Mounts, Groups: b.Spec.Groups,
	}
	if diff := cmp.Diff(devices, got); diff != "" {
		t.Error(diff)
	}
	// The next agent learns from the labels what the container has.
	id, err := taskcontainer.Identify(runtime.Container{Name: b.Spec.Name, Labels: b.Spec.Labels}, "node-1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(devices.Holds, id.Holds); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}
