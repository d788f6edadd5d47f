//go:build cgo

package main

import (
	"encoding/json"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

// ask puts one question.
func (h *helper) ask(t *testing.T, full bool) wire.Cards {
	t.Helper()
	raw, err := json.Marshal(wire.CardsParams{Full: full})
	if err != nil {
		t.Fatal(err)
	}
	result, failure := h.answer(wire.Request{Method: wire.MethodCards, Params: raw})
	if failure != nil {
		t.Fatalf("%+v", failure)
	}
	cards, ok := result.(wire.Cards)
	if !ok {
		t.Fatalf("%T", result)
	}
	return cards
}

func TestTheSimulatedServersAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		server *server.Server
		model  string
		memory uint64
	}{
		"DGX A100": {dgxa100.New(), "Mock NVIDIA A100-SXM4-40GB", 40960 << 20},
		"DGX H200": {dgxh200.New(), "NVIDIA H200 141GB HBM3e", 144384 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			got := simulate(t, c.server).ask(t, true)
			if len(got.Cards) != 8 || got.Driver != c.server.DriverVersion || got.Library != "/usr/lib/libnvidia-ml.so.550.54.15" {
				t.Fatalf("%+v", got)
			}
			for i, d := range devices(c.server) {
				want := wire.Card{
					Index: i, UUID: d.UUID, Name: d.Config.Name, BusID: address(i), Minor: &d.Minor,
					MemoryTotal: new(d.Config.MemoryMB << 20), MemoryUsed: new(uint64(0)), MIGMode: new(0), MIGPending: new(0),
				}
				if diff := cmp.Diff(want, got.Cards[i]); diff != "" {
					t.Errorf("card %d (-want +got):\n%s", i, diff)
				}
			}
			if got.Cards[7].Name != c.model || *got.Cards[7].MemoryTotal != c.memory {
				t.Errorf("%s with %d MiB", got.Cards[7].Name, *got.Cards[7].MemoryTotal>>20)
			}
		})
	}
}

func TestALostCardIsNotAskedFurther(t *testing.T) {
	s := dgxa100.New()
	h := simulate(t, s, "nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage")
	asked := 0
	for i, d := range devices(s) {
		d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) {
			if i == 2 {
				return 0, nvml.ERROR_GPU_IS_LOST
			}
			return 40, nvml.SUCCESS
		}
		d.GetPowerUsageFunc = func() (uint32, nvml.Return) {
			asked++
			return 100, nvml.SUCCESS
		}
	}
	got := h.ask(t, true)
	if asked != 7 {
		t.Errorf("%d cards were asked for their power", asked)
	}
	for i, c := range got.Cards {
		if lost := i == 2; (c.Failed[wire.FieldTemperature] == wire.GPULost) != lost || (c.Minor == nil) != lost || c.UUID == "" {
			t.Errorf("%+v", c)
		}
	}
}

func TestMIGDevicesAreListedAcrossTheirGaps(t *testing.T) {
	s := dgxa100.New()
	h := simulate(t, s, "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex",
		"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId")
	card := devices(s)[1]
	card.MigMode = nvml.DEVICE_MIG_ENABLE
	card.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	card.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i%3 != 0 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return &mock.Device{
			GetUUIDFunc:              func() (string, nvml.Return) { return "MIG-" + address(i), nvml.SUCCESS },
			GetNameFunc:              func() (string, nvml.Return) { return "A100 MIG 1g.5gb", nvml.SUCCESS },
			GetGpuInstanceIdFunc:     func() (int, nvml.Return) { return 7 + i, nvml.SUCCESS },
			GetComputeInstanceIdFunc: func() (int, nvml.Return) { return 0, nvml.SUCCESS },
		}, nvml.SUCCESS
	}
	instance := func(i int) wire.Instance {
		return wire.Instance{GI: new(7 + i), CI: new(0), UUID: "MIG-" + address(i), Name: "A100 MIG 1g.5gb"}
	}
	got := h.ask(t, true).Cards
	if diff := cmp.Diff([]wire.Instance{instance(0), instance(3), instance(6)}, got[1].Instances); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got[0].Instances != nil || *got[1].MIGMode != 1 || len(got[1].Failed) > 0 {
		t.Errorf("%+v, %+v", got[0], got[1])
	}
}

func TestTheOneCardThatCannotBeOpenedIsNamedByElimination(t *testing.T) {
	for name, c := range map[string]struct {
		unopened []int
		want     map[int]string
	}{
		"one":  {[]int{5}, map[int]string{5: "0000:61:00.0"}},
		"two":  {[]int{5, 6}, map[int]string{5: "", 6: ""}},
		"none": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := dgxa100.New()
			h := simulate(t, s)
			for i := range 8 {
				h.addDriverCard(t, i)
			}
			h.cards = h.driverCards()
			s.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
				if _, unopened := c.want[i]; unopened {
					return nil, nvml.ERROR_UNKNOWN
				}
				return s.Devices[i], nvml.SUCCESS
			}
			for i, card := range h.ask(t, false).Cards {
				if want, unopened := c.want[i]; unopened && (card.BusID != want || card.Handle != wire.Unknown) {
					t.Errorf("card %d: %+v, want bus id %q", i, card, want)
				}
			}
		})
	}
}

func TestWhatIsAboutNoSingleCardIsAnError(t *testing.T) {
	s := dgxa100.New()
	h := simulate(t, s)
	s.DeviceGetCountFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_DRIVER_NOT_LOADED }
	_, failure := h.answer(wire.Request{Method: wire.MethodCards})
	if failure == nil || failure.Code != wire.CodeNVML || failure.Return != wire.DriverNotLoaded {
		t.Errorf("%+v", failure)
	}
}

func TestAHelperKnowsWhenItHasToBeReplaced(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *helper){
		"the library was replaced": func(t *testing.T, h *helper) {
			h.setMaps(t, "7f00-7f01 r-xp 00000000 00:00 1 /usr/lib/libnvidia-ml.so.550.54.15 (deleted)")
		},
		"the driver has other cards": func(t *testing.T, h *helper) { h.addDriverCard(t, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			h := simulate(t, dgxa100.New())
			h.ask(t, false)
			h.xids.xids = []wire.XID{{Code: 79}}
			change(t, h)
			_, failure := h.answer(wire.Request{Method: wire.MethodCards})
			if failure == nil || failure.Code != wire.CodeStale || len(failure.Xids) != 1 {
				t.Errorf("%+v", failure)
			}
		})
	}
}
