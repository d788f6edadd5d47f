package nvml

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi"
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/cdi/spec"
	"github.com/heteroflow/node-agent/test/fakenvml"
)

var _ spec.Source = (*Specs)(nil)

// hostWith makes a host's file system with the driver's library, which is lib,
// its device nodes and, if hooked, nvidia-cdi-hook.
func hostWith(t *testing.T, lib fakenvml.Library, cards int, hooked bool) string {
	t.Helper()
	root := t.TempDir()
	libs := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	for _, dir := range []string{libs, filepath.Join(root, "dev"), filepath.Join(root, "usr/bin")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(lib.Path)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"libnvidia-ml.so." + fakenvml.Driver: raw, "libcuda.so." + fakenvml.Driver: nil}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(libs, name), data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(name, filepath.Join(libs, strings.TrimSuffix(name, fakenvml.Driver)+"1")); err != nil {
			t.Fatal(err)
		}
	}
	if hooked {
		if err := os.WriteFile(filepath.Join(root, "usr/bin/nvidia-cdi-hook"), nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"} {
		mknod(t, filepath.Join(root, "dev", name), 250+i)
	}
	for i := range cards {
		mknod(t, filepath.Join(root, "dev/nvidia"+strconv.Itoa(i)), i)
	}
	return root
}

func mknod(t *testing.T, path string, minor int) {
	t.Helper()
	err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(195, uint32(minor))))
	if errors.Is(err, unix.EPERM) {
		t.Skip("device nodes can be made by root only")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// elsewhere is a spec.Source that makes one thing.
type elsewhere struct{ made spec.Made }

func (e elsewhere) Make(context.Context, gpu.Vendor, []gpu.Device) (spec.Made, error) {
	return e.made, nil
}

func TestASpecForTheNodesCardsIsNVIDIAsOwn(t *testing.T) {
	lib := fakenvml.Build(t)
	root := hostWith(t, lib, 4, true)
	lib.Path = filepath.Join(root, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1") // its scenario is read beside it
	lib.Set("cards 4", "handle 2 15")
	c := started(t, Config{Path: helperPath(t), HostRoot: root})
	devices := []gpu.Device{
		{Index: new(0), UUID: fakenvml.UUID(0), Vendor: gpu.NVIDIA},
		{Index: new(1), UUID: fakenvml.UUID(1), Vendor: gpu.NVIDIA},
		{Index: new(2), UUID: fakenvml.UUID(2), Vendor: gpu.NVIDIA}, // lost by now
		{Index: new(3), UUID: fakenvml.UUID(3), Vendor: gpu.NVIDIA, MIGMode: "enabled"},
	}
	g := &cdi.Generator{
		Dir: t.TempDir(), Host: hostfs.FS{Root: root}, Sources: map[gpu.Vendor]spec.Source{gpu.NVIDIA: &Specs{Client: c}},
	}
	catalog, err := g.Generate(t.Context(), gpu.Snapshot{Devices: devices})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.Save(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(g.Dir, "*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	made, err := spec.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range made.Devices {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	if want := []string{"0", "1", fakenvml.UUID(0), fakenvml.UUID(1), "all"}; made.Kind != "nvidia.heteroflow.io/gpu" || !slices.Equal(names, want) {
		t.Errorf("kind %s, devices %v, want %v", made.Kind, names, want)
	}
	if strings.Contains(string(raw), root) || !strings.Contains(string(raw), `"/dev/nvidia3"`) { // the minor of card 0
		t.Errorf("%s", raw)
	}
	for i, want := range map[int]string{2: "GPU is lost", 3: "no MIG instance"} {
		if _, err := catalog.Select(gpu.NVIDIA, new(i), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("card %d: %v, want %q", i, err, want)
		}
	}
}

func TestWithoutTheHookAnotherSourceMakesTheSpecAndSaysWhy(t *testing.T) {
	lib := fakenvml.Build(t)
	root := hostWith(t, lib, 1, false)
	lib.Path = filepath.Join(root, "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1")
	lib.Set("cards 1")
	cards := []gpu.Device{{Index: new(0), UUID: fakenvml.UUID(0), Vendor: gpu.NVIDIA}}
	for name, path := range map[string]string{"the helper says so": helperPath(t), "there is no helper": filepath.Join(root, "absent")} {
		t.Run(name, func(t *testing.T) {
			s := &Specs{Client: started(t, Config{Path: path, HostRoot: root})}
			if _, err := s.Make(t.Context(), gpu.NVIDIA, cards); err == nil {
				t.Error("no error without another source")
			}
			s.Else = elsewhere{spec.Made{Spec: &specs.Spec{}}}
			made, err := s.Make(t.Context(), gpu.NVIDIA, cards)
			if err != nil || made.Spec == nil || len(made.Omitted) != 1 || made.Omitted[0].Reason == "" {
				t.Errorf("%+v, %v", made, err)
			}
		})
	}
}

func TestWhatAContainerCanBeGivenOfACard(t *testing.T) {
	mig := []gpu.Instance{{UUID: "MIG-1"}, {UUID: ""}, {UUID: "MIG-2"}}
	for name, c := range map[string]struct {
		card gpu.Device
		want []string
	}{
		"itself":                         {gpu.Device{UUID: "GPU-1", MIGMode: "disabled"}, []string{"GPU-1"}},
		"its instances":                  {gpu.Device{UUID: "GPU-1", MIGMode: "enabled", Instances: mig}, []string{"MIG-1", "MIG-2"}},
		"nothing while it has none":      {gpu.Device{UUID: "GPU-1", MIGMode: "enabled"}, nil},
		"nothing when it has no uuid":    {gpu.Device{}, nil},
		"itself, whatever it had before": {gpu.Device{UUID: "GPU-1", Instances: mig}, []string{"GPU-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := named(c.card); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
