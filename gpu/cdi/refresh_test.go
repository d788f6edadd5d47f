package cdi

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
)

// A spec is made anew before each use. What it was made from is not remembered, so that
// nothing of it can be missed.
func TestASpecFollowsWhatItIsMadeFrom(t *testing.T) {
	g := fakeGenerator(t, "nvidia")
	file := filepath.Join(g.Dir(), "heteroflow-nvidia.json")
	devices := slices.Clone(nodes["nvidia"])
	at := func(name string) string { return filepath.Join(g.own.host.root, name) }
	const libs = "/usr/lib/x86_64-linux-gnu/"

	steps := []struct {
		name       string
		change     func() error
		in, notYet string // in the file after the change, and not before
		gone       string // after the change
	}{
		{"at first", func() error { return nil }, "libcuda.so.550.54.15", "", ""},
		{"the driver is updated", func() error {
			makeFile(t, at(libs+"libcuda.so.570.1"), "")
			return errors.Join(os.Remove(at(libs+"libcuda.so.1")), os.Remove(at(libs+"libcuda.so.550.54.15")),
				os.Symlink("libcuda.so.570.1", at(libs+"libcuda.so.1")))
		}, "libcuda.so.570.1", "libcuda.so.570.1", "550.54.15"},
		{"a MIG instance is made", func() error {
			makeFile(t, at("/proc/driver/nvidia-caps/mig-minors"), "gpu1/gi1/access 12\ngpu1/gi1/ci0/access 13\ngpu1/gi7/access 13\ngpu1/gi7/ci0/access 12\n")
			devices[0].Instances = append(slices.Clone(devices[0].Instances), gpu.Instance{GI: new(7), CI: new(0), UUID: "MIG-new"})
			return nil
		}, `"MIG-new"`, `"MIG-new"`, ""},
		{"a MIG instance is destroyed", func() error {
			devices[0].Instances = devices[0].Instances[1:]
			return nil
		}, `"MIG-new"`, "", "MIG-aaaaaaaa"},
		{"MIG is switched off", func() error {
			devices[0].MIGMode, devices[0].Instances = "disabled", nil
			return nil
		}, devices[0].UUID, devices[0].UUID, "MIG-new"},
		{"the machine is started anew", func() error {
			before := g.own.host.number
			g.own.host.number = func(path string) (deviceNumber, error) {
				n, err := before(path)
				if n.major == 507 { // that of nvidia-uvm is given out at each start
					n.major = 511
				}
				return n, err
			}
			return os.Remove(file) // of a file system in memory
		}, `"major": 511`, `"major": 511`, `"major": 507`},
		{"a card is found", func() error {
			devices = append(devices, card(gpu.NVIDIA, 3, func(d *gpu.Device) { d.UUID, d.Minor = "GPU-late", new(255) }))
			makeFile(t, at("/dev/nvidia255"), "")
			before := g.own.host.number
			g.own.host.number = func(path string) (deviceNumber, error) {
				if path == at("/dev/nvidia255") {
					return deviceNumber{kind: "c", major: 195, minor: 254, mode: 0o666}, nil
				}
				return before(path)
			}
			return nil
		}, `"GPU-late"`, `"GPU-late"`, ""},
		{"a card vanishes", func() error {
			devices = devices[1:]
			return nil
		}, `"GPU-late"`, "", "GPU-11111111"},
	}
	before := ""
	for _, step := range steps {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		for _, want := range [][]string{{file}, nil} { // the second time there is nothing to do
			c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: devices})
			if err != nil {
				t.Fatal(err)
			}
			changed, err := c.Save()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, changed); diff != "" {
				t.Errorf("%s: changed (-want +got):\n%s", step.name, diff)
			}
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		after := string(data)
		if !strings.Contains(after, step.in) || step.notYet != "" && strings.Contains(before, step.notYet) ||
			step.gone != "" && strings.Contains(after, step.gone) {
			t.Errorf("%s: want %q in and %q out of:\n%s", step.name, step.in, step.gone, after)
		}
		before = after
	}
}
