//go:build cgo

package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

// driverRoot makes the part of a host that NVIDIA's driver of this version and
// eight cards have.
func driverRoot(t *testing.T, version string) string {
	t.Helper()
	root := t.TempDir()
	libs := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	for _, dir := range []string{libs, filepath.Join(root, "dev"), filepath.Join(root, "usr/bin"), filepath.Join(root, mpsPipes)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := func(path string) {
		if err := os.WriteFile(path, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, lib := range []string{"libcuda.so", "libnvidia-ml.so"} {
		file(filepath.Join(libs, lib+"."+version))
		if err := os.Symlink(lib+"."+version, filepath.Join(libs, lib+".1")); err != nil {
			t.Fatal(err)
		}
	}
	file(filepath.Join(root, "usr/bin/nvidia-smi"))
	file(filepath.Join(root, defaultHook))
	nodes := map[string]uint32{"nvidiactl": 255, "nvidia-modeset": 254, "nvidia-uvm": 0, "nvidia-uvm-tools": 1}
	for i := range 8 {
		nodes["nvidia"+strconv.Itoa(i)] = uint32(i)
	}
	for name, minor := range nodes {
		err := unix.Mknod(filepath.Join(root, "dev", name), unix.S_IFCHR|0o666, int(unix.Mkdev(195, minor)))
		if errors.Is(err, unix.EPERM) {
			t.Skip("device nodes can be made by root only")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// generating adds to a server the calls that NVIDIA's generator makes beyond it.
func generating(s *server.Server) []string {
	for _, d := range devices(s) {
		d.IsMigDeviceHandleFunc = func() (bool, nvml.Return) { return false, nvml.SUCCESS }
		d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 0, nvml.SUCCESS }
	}
	return usedByCDI
}

// spec asks for a spec and checks it as an engine does.
func (h *helper) spec(t *testing.T, p wire.CDIParams) (*specs.Spec, wire.CDI) {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	result, failure := h.answer(wire.Request{Method: wire.MethodCDI, Params: raw})
	if failure != nil {
		t.Fatal(failure)
	}
	answer, ok := result.(wire.CDI)
	if !ok {
		t.Fatalf("%T", result)
	}
	s, err := cdi.ParseSpec(answer.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return s, answer
}

func TestASpecIsGeneratedForEightCards(t *testing.T) {
	s := dgxh200.New()
	root := driverRoot(t, s.DriverVersion)
	h := simulate(t, s, generating(s)...)
	got, _ := h.spec(t, wire.CDIParams{Vendor: "nvidia.heteroflow.io", Class: "gpu", Root: root})
	if got.Kind != "nvidia.heteroflow.io/gpu" {
		t.Errorf("kind %s", got.Kind)
	}
	var names []string
	for _, d := range got.Devices {
		names = append(names, d.Name)
	}
	for i, d := range devices(s) {
		if !slices.Contains(names, strconv.Itoa(i)) || !slices.Contains(names, d.UUID) {
			t.Errorf("card %d is not in %v", i, names)
		}
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"/dev/nvidia7", "/dev/nvidiactl", "/dev/nvidia-uvm", "libcuda.so." + s.DriverVersion, "/usr/bin/nvidia-smi", defaultHook,
		"update-ldcache", "NVIDIA_VISIBLE_DEVICES=void",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, unwanted := range []string{root, mpsPipes} {
		if strings.Contains(string(text), unwanted) {
			t.Errorf("%s is in %s", unwanted, text)
		}
	}
}

func TestACardThatCannotBeDescribedLeavesTheOthers(t *testing.T) {
	s := dgxh200.New()
	root := driverRoot(t, s.DriverVersion)
	h := simulate(t, s, generating(s)...)
	cards := devices(s)
	cards[2].GetMinorNumberFunc = func() (int, nvml.Return) { return 0, nvml.ERROR_GPU_IS_LOST }
	got, answer := h.spec(t, wire.CDIParams{
		Vendor: "nvidia.com", Class: "gpu", Root: root, Devices: []string{cards[1].UUID, cards[2].UUID},
	})
	if len(got.Devices) != 2 || len(answer.Absent) != 1 || answer.Absent[cards[2].UUID] == "" {
		t.Errorf("%d devices, absent %v", len(got.Devices), answer.Absent)
	}
}

func TestADriverInAContainerIsFoundByItsLibrary(t *testing.T) {
	for name, c := range map[string]struct {
		file, nodes string // of the library and of nvidiactl, below the root
		driver, dev string
	}{
		"on the host":                       {"/usr/lib64/libnvidia-ml.so.1", "/", "/", "/"},
		"in its container":                  {"/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1", "/run/nvidia/driver", "/run/nvidia/driver", "/run/nvidia/driver"},
		"in its container, nodes elsewhere": {"/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1", "/", "/run/nvidia/driver", "/"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			node := filepath.Join(root, c.nodes, "dev/nvidiactl")
			if err := os.MkdirAll(node, 0o700); err != nil {
				t.Fatal(err)
			}
			h := &helper{lib: &library{file: filepath.Join(root, c.file)}}
			driver, dev := h.roots(wire.CDIParams{Root: root})
			if driver != filepath.Join(root, c.driver) || dev != filepath.Join(root, c.dev) {
				t.Errorf("%s, %s", driver, dev)
			}
			if driver, dev := h.roots(wire.CDIParams{Root: root, DriverRoot: "/a", DevRoot: "/b"}); driver != root+"/a" || dev != root+"/b" {
				t.Errorf("as asked for: %s, %s", driver, dev)
			}
		})
	}
}

func TestWhatASpecNeedsIsNamedWhenItIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		missing string // below the root, or a call
		words   string
	}{
		"the hook":      {defaultHook, defaultHook},
		"the libraries": {"usr/lib", "libcuda"},
		"a call":        {"nvmlDeviceGetHandleByUUID", "nvmlDeviceGetHandleByUUID"},
	} {
		t.Run(name, func(t *testing.T) {
			s := dgxh200.New()
			root := driverRoot(t, s.DriverVersion)
			h := simulate(t, s, generating(s)...)
			if c.missing == c.words && !strings.Contains(c.missing, "/") {
				h.lib.symbols.Store(c.missing, false)
			} else if err := os.RemoveAll(filepath.Join(root, c.missing)); err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(wire.CDIParams{Vendor: "nvidia.com", Class: "gpu", Root: root})
			if err != nil {
				t.Fatal(err)
			}
			_, failure := h.answer(wire.Request{Method: wire.MethodCDI, Params: raw})
			if failure == nil || failure.Code != wire.CodeCDI || !strings.Contains(failure.Message, c.words) {
				t.Errorf("%v", failure)
			}
		})
	}
}
