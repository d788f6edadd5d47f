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
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/cdi/hosttest"
	"github.com/heteroflow/node-agent/gpu/cdi/specfile"
)

// A spec is made anew before each use. What it was made from is not remembered, so that
// nothing of it can be missed.
func TestASpecFollowsWhatItIsMadeFrom(t *testing.T) {
	g := generator(t, "nvidia")
	file := specfile.Path(g.Dir, gpu.NVIDIA)
	devices := slices.Clone(hosttest.Devices["nvidia"])
	at := func(name string) string { return filepath.Join(g.Host.Root, name) }
	const libs = "/usr/lib/x86_64-linux-gnu/"

	steps := []struct {
		name       string
		change     func() error
		in, notYet string // in the file after the change, and not before
		gone       string // after the change
	}{
		{"at first", func() error { return nil }, "libcuda.so.550.54.15", "", ""},
		{"the driver is updated", func() error {
			hosttest.MakeFile(t, at(libs+"libcuda.so.570.1"), "")
			return errors.Join(os.Remove(at(libs+"libcuda.so.1")), os.Remove(at(libs+"libcuda.so.550.54.15")),
				os.Symlink("libcuda.so.570.1", at(libs+"libcuda.so.1")))
		}, "libcuda.so.570.1", "libcuda.so.570.1", "550.54.15"},
		{"a MIG instance is made", func() error {
			hosttest.MakeFile(t, at("/proc/driver/nvidia-caps/mig-minors"), "gpu1/gi1/access 12\ngpu1/gi1/ci0/access 13\ngpu1/gi7/access 13\ngpu1/gi7/ci0/access 12\n")
			devices[0].Instances = append(slices.Clone(devices[0].Instances), gpu.Instance{GI: new(7), CI: new(0), UUID: "MIG-new"})
			return nil
		}, `"MIG-new"`, `"MIG-new"`, ""},
		{"a MIG instance is destroyed", func() error {
			devices[0].Instances = devices[0].Instances[1:]
			return nil
		}, `"MIG-new"`, "", "MIG-aaaaaaaa"},
		{"MIG is switched off", func() error {
			devices[0].MIGMode, devices[0].Instances = gpu.MIGDisabled, nil
			return nil
		}, devices[0].UUID, devices[0].UUID, "MIG-new"},
		{"the machine is started anew", func() error {
			before := g.Host.Nodes
			g.Host.Nodes = func(path string) (hostfs.Node, error) {
				n, err := before(path)
				if n.Major == 507 { // that of nvidia-uvm is given out at each start
					n.Major = 511
				}
				return n, err
			}
			return os.Remove(file) // of a file system in memory
		}, `"major": 511`, `"major": 511`, `"major": 507`},
		{"a card is found", func() error {
			devices = append(devices, hosttest.Card(gpu.NVIDIA, 3, func(d *gpu.Device) { d.UUID, d.Minor = "GPU-late", new(255) }))
			hosttest.MakeFile(t, at("/dev/nvidia255"), "")
			before := g.Host.Nodes
			g.Host.Nodes = func(path string) (hostfs.Node, error) {
				if path == at("/dev/nvidia255") {
					return hostfs.Node{Type: "c", Major: 195, Minor: 254, Mode: 0o666}, nil
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
			changed, err := generate(t, g, devices...).Save()
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
