//go:build cgo

package main

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

func TestRanges(t *testing.T) {
	for want, set := range map[string][]uint{
		"":                {},
		"0":               {1},
		"0-23,48-71":      {0xffff000000ffffff, 0xff},
		"63-64":           {1 << 63, 1},
		"1,3,5-6,127":     {0b1101010, 1 << 63},
		"0-63":            {^uint(0)},
		"0-127":           {^uint(0), ^uint(0)},
		"64-65,67,70-127": {0, ^uint(0) &^ 0b110100},
	} {
		if got := ranges(set); got != want {
			t.Errorf("%x: %q, want %q", set, got, want)
		}
	}
}

func TestCardsAreLinkedByWhatIsBetweenThem(t *testing.T) {
	s := dgxa100.New()
	s.Devices = s.Devices[:4]
	h := simulate(t, s, "nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetNvLinkState",
		"nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlDeviceGetNvLinkRemoteDeviceType")
	// Cards 0 and 1 have two links to each other, 2 and 3 three to a switch; one
	// of 0's is down, and one leads to what is no card here.
	const toSwitch, elsewhere, down = -1, -2, -3
	ends := [][]int{{1, 1, down, elsewhere}, {0, 0}, {toSwitch, toSwitch, toSwitch}, {toSwitch, toSwitch, toSwitch}}
	for i, d := range devices(s) {
		d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			switch {
			case link >= len(ends[i]):
				return 0, nvml.ERROR_INVALID_ARGUMENT
			case ends[i][link] == down:
				return nvml.FEATURE_DISABLED, nvml.SUCCESS
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		d.GetNvLinkRemoteDeviceTypeFunc = func(link int) (nvml.IntNvLinkDeviceType, nvml.Return) {
			if ends[i][link] == toSwitch {
				return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
			}
			return nvml.NVLINK_DEVICE_TYPE_GPU, nvml.SUCCESS
		}
		d.GetNvLinkRemotePciInfoFunc = func(link int) (nvml.PciInfo, nvml.Return) {
			if ends[i][link] == elsewhere {
				return pciInfo("00000000:FF:00.0"), nvml.SUCCESS
			}
			return pciInfo(address(ends[i][link])), nvml.SUCCESS
		}
		d.GetTopologyCommonAncestorFunc = func(nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
			if i == 1 {
				return 0, nvml.ERROR_NOT_SUPPORTED
			}
			return nvml.TOPOLOGY_NODE, nvml.SUCCESS
		}
	}
	want := []wire.Link{
		{A: 0, B: 1, Type: "NV2"}, {A: 0, B: 2, Type: "NODE"}, {A: 0, B: 3, Type: "NODE"}, {A: 2, B: 3, Type: "NV3"},
	}
	if diff := cmp.Diff(want, h.ask(t, true).Links); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if links := h.ask(t, false).Links; links != nil {
		t.Errorf("in a short round: %+v", links)
	}
}
