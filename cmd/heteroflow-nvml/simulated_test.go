//go:build cgo

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// simulated are the calls that go-nvml's simulated servers answer. The library
// has no others, so that none may be made.
var simulated = []string{
	"nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMinorNumber",
	"nvmlDeviceGetMigMode", "nvmlDeviceGetIndex", "nvmlDeviceGetBrand", "nvmlDeviceGetHandleByUUID",
}

func address(i int) string { return fmt.Sprintf("00000000:%02X:00.0", 0x11+16*i) }

func pciInfo(bus string) (p nvml.PciInfo) {
	for i := range bus {
		p.BusId[i] = int8(bus[i])
	}
	return p
}

// simulate returns a helper whose NVML is one of the simulated servers, with the
// further calls that a test has added to it.
func simulate(t *testing.T, s *server.Server, calls ...string) *helper {
	t.Helper()
	calls = append(calls, simulated...)
	s.LookupSymbolFunc = func(name string) error {
		if slices.Contains(calls, name) {
			return nil
		}
		return fmt.Errorf("no %s", name)
	}
	for i, d := range devices(s) {
		d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return pciInfo(address(i)), nvml.SUCCESS }
	}
	h := &helper{proc: t.TempDir(), lib: &library{Interface: s}, open: true}
	h.xids = newWatcher(h.lib)
	h.setMaps(t, "7f00-7f01 r-xp 00000000 00:00 1 /usr/lib/libnvidia-ml.so.550.54.15")
	return h
}

func (h *helper) setMaps(t *testing.T, line string) {
	t.Helper()
	path := filepath.Join(h.proc, "self", "maps")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("5500-5501 r-xp 00000000 00:00 1 /usr/bin/helper\n"+line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// addDriverCard makes the driver list a card in procfs.
func (h *helper) addDriverCard(t *testing.T, i int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(h.proc, "driver/nvidia/gpus", strings.ToLower(address(i)[4:])), 0o700); err != nil {
		t.Fatal(err)
	}
}

func devices(s *server.Server) []*server.Device {
	var list []*server.Device
	for _, d := range s.Devices {
		if d, ok := d.(*server.Device); ok {
			list = append(list, d)
		}
	}
	return list
}

// watchable lets the Xids of the devices be watched through set.
func watchable(s *server.Server, set *mock.EventSet) []string {
	set.FreeFunc = func() nvml.Return { return nvml.SUCCESS }
	s.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return set, nvml.SUCCESS }
	for _, d := range devices(s) {
		d.GetSupportedEventTypesFunc = func() (uint64, nvml.Return) { return nvml.EventTypeXidCriticalError, nvml.SUCCESS }
		d.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.SUCCESS }
	}
	return []string{
		"nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait_v2", "nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes",
	}
}
