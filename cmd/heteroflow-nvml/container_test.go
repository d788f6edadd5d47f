//go:build cgo

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh200"
	"github.com/google/go-cmp/cmp"
	rspec "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
	"github.com/heteroflow/node-agent/test/daemon"
	"github.com/heteroflow/node-agent/test/workload/report"
)

// TestAContainerSeesItsCardAndNoOther runs a container as an engine does: the
// spec's edits in its configuration, the real nvidia-cdi-hook as its hook.
func TestAContainerSeesItsCardAndNoOther(t *testing.T) {
	hook := daemon.RequireProgram(t, "nvidia-cdi-hook", "make nvidia, and .tools on the path")
	runc := daemon.RequireProgram(t, "runc", "make docker")
	if os.Getuid() != 0 {
		t.Skip("containers are run by root here")
	}
	s := dgxh200.New()
	root := driverRoot(t, s.DriverVersion)
	h := simulate(t, s, generating(s)...)
	_, answer := h.spec(t, wire.CDIParams{Vendor: "nvidia.heteroflow.io", Class: "gpu", DriverRoot: root, Hook: hook})
	specDir, bundle := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(specDir, "nvidia.json"), answer.Spec, 0o600); err != nil {
		t.Fatal(err)
	}
	runtime := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), runc, args...)
		cmd.Dir = bundle
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("runc %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	runtime("spec")
	config := filepath.Join(bundle, "config.json")
	raw, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	var oci rspec.Spec
	if err := json.Unmarshal(raw, &oci); err != nil {
		t.Fatal(err)
	}
	oci.Process.Terminal, oci.Root.Readonly = false, false
	oci.Process.Args = []string{"/workload", "print-devices"}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(specDir), cdi.WithAutoRefresh(false))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cache.InjectDevices(&oci, "nvidia.heteroflow.io/gpu=3"); err != nil {
		t.Fatal(err)
	}
	if raw, err = json.Marshal(oci); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(bundle, "rootfs/etc"), 0o700); err != nil { // a hook writes ld.so.conf and ld.so.cache
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(bundle, "rootfs/workload"),
		"github.com/heteroflow/node-agent/test/workload")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the workload: %v\n%s", err, out)
	}
	check(t, runtime("--root", t.TempDir(), "run", "heteroflow-nvml-test"), s.DriverVersion)
}

// check holds what the container reports against the card that it was given.
func check(t *testing.T, out, driver string) {
	t.Helper()
	var got report.Devices
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var nodes []string
	for _, n := range got.Nodes {
		if strings.Contains(string(n.Path), "nvidia") {
			nodes = append(nodes, string(n.Path))
		}
	}
	slices.Sort(nodes)
	want := []string{"/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia3", "/dev/nvidiactl"}
	if diff := cmp.Diff(want, nodes); diff != "" {
		t.Errorf("device nodes (-want +got):\n%s", diff)
	}
	for _, want := range []string{"/usr/lib/x86_64-linux-gnu/libcuda.so." + driver, "NVIDIA_VISIBLE_DEVICES"} {
		if !strings.Contains(out, want) {
			t.Errorf("%s is not in the container:\n%s", want, out)
		}
	}
}
