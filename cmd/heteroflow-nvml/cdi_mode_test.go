//go:build cgo

package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
	"github.com/heteroflow/node-agent/test/fakenvml"
)

// withCards is a simulated server with so many cards, the first of which is called model.
func withCards(s *server.Server, n int, model string) *server.Server {
	s.DeviceGetCountFunc = func() (int, nvml.Return) { return n, nvml.SUCCESS }
	devices(s)[0].GetNameFunc = func() (string, nvml.Return) { return model, nvml.SUCCESS }
	return s
}

// put makes a file of a host.
func put(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o700)); err != nil {
		t.Fatal(err)
	}
}

// node makes a device node of a host.
func node(t *testing.T, root, name string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(10, 118)))
	if errors.Is(err, unix.EPERM) {
		t.Skip("device nodes can be made by root only")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// refused asks for a spec and returns why there is none.
func (h *helper) refused(t *testing.T, p wire.CDIParams) string {
	t.Helper()
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	answer, failure := h.answer(wire.Request{Method: wire.MethodCDI, Params: raw})
	if failure == nil || failure.Code != wire.CodeCDI {
		t.Fatalf("%v, %v", answer, failure)
	}
	return failure.Message
}

func hasAll(t *testing.T, s *specs.Spec, want, unwanted []string) {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		if !strings.Contains(string(text), w) {
			t.Errorf("%s is missing in %s", w, text)
		}
	}
	for _, u := range unwanted {
		if strings.Contains(string(text), u) {
			t.Errorf("%s is in %s", u, text)
		}
	}
}

func namesOf(s *specs.Spec) []string {
	var names []string
	for _, d := range s.Devices {
		names = append(names, d.Name)
	}
	return names
}

func TestTheCardOfAJetsonIsWhatNVIDIAsListsSay(t *testing.T) {
	s := withCards(dgxh200.New(), 1, "Orin (nvgpu)")
	root := t.TempDir()
	put(t, root, defaultHook, "")
	const lists, libs = "/etc/nvidia-container-runtime/host-files-for-container.d/", "/usr/lib/aarch64-linux-gnu/nvidia/"
	h := simulate(t, s, append(generating(s), "nvmlSystemGetCudaDriverVersion")...)
	p := wire.CDIParams{Vendor: "nvidia.heteroflow.io", Class: "gpu", Root: root}
	if why := h.refused(t, p); !strings.Contains(why, "install the package nvidia-l4t-init") {
		t.Errorf("without the lists: %s", why)
	}

	put(t, root, lists+"devices.csv", "dev, /dev/nvmap\ndev, /dev/nvhost-gpu\ndev, /dev/absent\n")
	put(t, root, lists+"drivers.csv", "lib, "+libs+"libcuda.so.1.1\nsym, "+libs+"libcuda.so\ndir, /lib/firmware/tegra23x\n")
	put(t, root, libs+"libcuda.so.1.1", "")
	put(t, root, "/lib/firmware/tegra23x/x", "")
	if err := os.Symlink("libcuda.so.1.1", filepath.Join(root, libs, "libcuda.so")); err != nil {
		t.Fatal(err)
	}
	node(t, root, "/dev/nvmap")
	node(t, root, "/dev/nvhost-gpu")
	uuid := devices(s)[0].UUID
	p.Devices = []string{uuid, "another"}
	got, answer := h.spec(t, p)
	if names := namesOf(got); !slices.Equal(names, []string{"0", uuid}) || answer.Absent["another"] == "" {
		t.Errorf("devices %v, absent %v", names, answer.Absent)
	}
	hasAll(t, got, []string{"/dev/nvmap", "/dev/nvhost-gpu", libs + "libcuda.so.1.1", "/lib/firmware/tegra23x", "libcuda.so.1.1::" + libs + "libcuda.so"},
		[]string{root, "/dev/absent", "/dev/nvidia0"})
}

func TestTheCardOfAWSLMachineIsTheOneNodeOfAll(t *testing.T) {
	fakenvml.NeedCompiler(t)
	root := t.TempDir()
	const store = "/usr/lib/wsl/drivers/nvfrwi.inf_amd64_63d60f682af8cba2"
	lib := filepath.Join(t.TempDir(), "libdxcore.so")
	build := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libdxcore.so",
		"-DSTORE=L"+strconv.Quote(root+store), "-o", lib, "testdata/dxcore.c")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dxcore := dl.New(lib, dl.RTLD_NOW|dl.RTLD_GLOBAL) // found by its name from now on
	if err := dxcore.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dxcore.Close(); err != nil {
			t.Error(err)
		}
	})
	put(t, root, defaultHook, "")
	for _, name := range []string{"libcuda.so.1.1", "libcuda_loader.so", "libnvidia-ml.so.1", "nvidia-smi"} {
		put(t, root, store+"/"+name, "")
	}
	node(t, root, "/dev/dxg")

	s := withCards(dgxh200.New(), 1, "NVIDIA GeForce RTX 4090")
	h := simulate(t, s)
	p := wire.CDIParams{Vendor: "nvidia.heteroflow.io", Class: "gpu", Root: root}
	got, _ := h.spec(t, p)
	if names := namesOf(got); !slices.Equal(names, []string{"0", devices(s)[0].UUID}) {
		t.Errorf("devices %v", names)
	}
	hasAll(t, got, []string{"/dev/dxg", store + "/libcuda.so.1.1", "/usr/bin/nvidia-smi", "update-ldcache"},
		[]string{root, "/dev/nvidia"})

	h = simulate(t, withCards(dgxh200.New(), 2, "NVIDIA GeForce RTX 4090"))
	if why := h.refused(t, p); !strings.Contains(why, "all cards of this machine or none") {
		t.Errorf("with two cards: %s", why)
	}
}
