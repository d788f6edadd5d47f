package cdi

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/hosttest"
)

// catalogOf is the catalog of a host of hosttest with some things changed in what its
// detectors found.
func catalogOf(t *testing.T, host string, change func(*gpu.Snapshot)) *Catalog {
	t.Helper()
	s := gpu.Snapshot{Type: hosttest.Devices[host][0].Vendor, Devices: hosttest.Devices[host]}
	if change != nil {
		change(&s)
	}
	c, err := generator(t, host).Generate(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const second = "GPU-66666666-2222-3333-4444-555555555555" // card 1 of the host nvidia

func TestACardIsSelectedOnlyIfAllThatIsSaidOfItIsTrue(t *testing.T) {
	cases := map[string]struct {
		change func(*gpu.Snapshot)
		index  *int
		uuid   string
		want   string // qualified name, or part of the refusal
	}{
		"by index":                     {nil, new(1), "", "nvidia.heteroflow.io/gpu=" + second},
		"by uuid":                      {nil, nil, second, "nvidia.heteroflow.io/gpu=" + second},
		"by both":                      {nil, new(1), second, "nvidia.heteroflow.io/gpu=" + second},
		"the index of another card":    {nil, new(2), second, "the card with this uuid has index 1"},
		"the uuid of no card":          {nil, new(1), "GPU-gone", `the card with this index has uuid "GPU-66`},
		"an index that is not there":   {nil, new(7), "", "device 7: not in the inventory"},
		"a uuid that is not there":     {nil, nil, "GPU-gone", "device GPU-gone: not in the inventory"},
		"a card in MIG mode":           {nil, new(0), "", "it is in MIG mode"},
		"a card without a device node": {nil, new(2), "", "device node /dev/nvidia2: no such file or directory"},
		"a card that the tool reports as failed": {func(s *gpu.Snapshot) {
			s.Stats = []gpu.Stats{{Index: new(1), Health: gpu.HealthFailed, HealthMessage: "fell off the bus"}}
		}, new(1), "", "the card has failed: fell off the bus"},
		"a card with a failure by uuid": {func(s *gpu.Snapshot) {
			s.Failures = []gpu.Failure{{UUID: second, Code: "gpu_lost", Message: "GPU is lost"}}
		}, new(1), "", "the card has failed: gpu_lost: GPU is lost"},
		"a card beside one with a failure": {func(s *gpu.Snapshot) {
			s.Failures = []gpu.Failure{{Index: new(2), Code: "gpu_lost"}, {Vendor: gpu.Ascend, Index: new(1), Code: "sick"}}
		}, new(1), "", "nvidia.heteroflow.io/gpu=" + second},
		"a vendor whose tool fails": {func(s *gpu.Snapshot) {
			s.Devices = nil
			s.Vendors = []gpu.VendorStatus{{Vendor: gpu.NVIDIA, Error: &gpu.CollectorError{Code: "tool_hung", Message: "no answer"}}}
		}, new(1), "", "the vendor's tool fails: "},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := catalogOf(t, "nvidia", tc.change)
			got, err := c.Select(gpu.NVIDIA, tc.index, tc.uuid)
			if err == nil {
				if got.Name != tc.want {
					t.Errorf("selected %s, want %s", got.Name, tc.want)
				}
				return
			}
			refused, ok := errors.AsType[*UnavailableError](err)
			if !ok || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want a refusal that says %q", err, tc.want)
			}
			if !strings.HasSuffix(refused.File, "heteroflow-nvidia.json") || !strings.Contains(err.Error(), refused.File) {
				t.Errorf("the refusal names the spec file as %q: %v", refused.File, err)
			}
		})
	}
}

func TestAnInstanceIsSelectedByItsUUID(t *testing.T) {
	const instance = "MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
	c := catalogOf(t, "nvidia", nil)
	s, err := c.SelectInstance(instance)
	if err != nil || s.Name != "nvidia.heteroflow.io/gpu="+instance || *s.Device.Index != 0 {
		t.Fatalf("got %+v, %v", s, err)
	}
	got, err := c.Nodes([]Selection{s})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, n := range got {
		paths = append(paths, n.Path)
	}
	want := []string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia1", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	for uuid, want := range map[string]string{
		"MIG-gone": "no card has this MIG instance", "": "no card has this MIG instance",
		"MIG-of-which-no-rights-are-listed": "does not list gpu1/gi2/access",
	} {
		if _, err := c.SelectInstance(uuid); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", uuid, err, want)
		}
	}
	c = catalogOf(t, "nvidia", func(s *gpu.Snapshot) { s.Failures = []gpu.Failure{{Index: new(0), Code: "gpu_lost"}} })
	if _, err := c.SelectInstance(instance); err == nil || !strings.Contains(err.Error(), "has failed: gpu_lost") {
		t.Errorf("on a failed card: %v", err)
	}
}
