package cdi

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	lib "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestSpecsOfEachVendorAreAsRecorded(t *testing.T) {
	covered := map[gpu.Vendor]bool{}
	for name, devices := range nodes {
		vendor := devices[0].Vendor
		covered[vendor] = true
		t.Run(name, func(t *testing.T) {
			g := fakeGenerator(t, name)
			c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: devices})
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name+".json", c.vendors[vendor].data)
			golden(t, name+".txt", []byte(describe(c)))
			if _, err := c.Save(); err != nil {
				t.Fatal(err)
			}
			// What engines will say of it.
			if _, err := lib.ReadSpec(c.vendors[vendor].file, 0); err != nil {
				t.Error(err)
			}
		})
	}
	for _, v := range gpu.Vendors() {
		if !covered[v] {
			t.Errorf("no host of vendor %s", v)
		}
	}
}

func TestNoTwoCardsHaveOneNode(t *testing.T) {
	g := fakeGenerator(t, "enflame")
	c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: []gpu.Device{
		nodes["enflame"][0], card(gpu.Enflame, 1, nil), // whose node would be that of the first, as far as is known
	}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := describe(c), "absent: device 1: device node /dev/gcu1 is that of card 0\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOneOfSeveralCardsIsRefusedWhereTheyCannotBeToldApart(t *testing.T) {
	discrete := card(gpu.NVIDIA, 1, func(d *gpu.Device) { d.Model = "NVIDIA RTX 6000 Ada Generation" })
	for host, want := range map[string]string{
		"nvidia-wsl":   "on WSL2 a container has all cards or none",
		"nvidia-tegra": "install heteroflow-nvml and the NVIDIA container toolkit",
	} {
		g := fakeGenerator(t, host)
		c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: []gpu.Device{nodes[host][0], discrete}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2 {
			if _, err := c.Select(gpu.NVIDIA, new(i), ""); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, card %d: got %v, want %q", host, i, err, want)
			}
		}
	}
}

func TestATegraWithoutNVIDIAsListsSaysWhatToInstall(t *testing.T) {
	g := fakeGenerator(t, "nvidia-container")
	c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: nodes["nvidia-tegra"][:1]})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Select(gpu.NVIDIA, new(0), "")
	if err == nil || !strings.Contains(err.Error(), "install the package nvidia-l4t-init") || !strings.Contains(err.Error(), "devices.csv: no such file") {
		t.Errorf("got %v", err)
	}
}

// describe lists what a catalog leaves out.
func describe(c *Catalog) string {
	var out strings.Builder
	for _, a := range c.Absent() {
		fmt.Fprintf(&out, "absent: device %d: %s\n", *a.Device.Index, a.Reason)
	}
	for _, list := range c.Omitted() {
		for _, o := range list {
			fmt.Fprintf(&out, "omitted: %s: %s\n", o.Path, o.Reason)
		}
	}
	return out.String()
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata/golden", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update accepts it):\n%s", name, diff)
	}
}

// source is somebody else's library.
type source func(vendor gpu.Vendor, devices []gpu.Device) (Made, error)

func (s source) Make(_ context.Context, vendor gpu.Vendor, devices []gpu.Device) (Made, error) {
	return s(vendor, devices)
}

func TestAVendorsOwnSpecTakesTheRecipesPlace(t *testing.T) {
	theirs := func(gpu.Vendor, []gpu.Device) (Made, error) {
		return Made{Spec: &specs.Spec{
			Version: "1.1.0", Kind: "nvidia.com/gpu",
			Devices: []specs.Device{
				{Name: "0", ContainerEdits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/dev/nvidia0"}}}},
				{Name: "all", ContainerEdits: specs.ContainerEdits{Env: []string{"STALE=1"}}},
			},
			ContainerEdits: specs.ContainerEdits{Hooks: []*specs.Hook{{
				HookName: "createContainer", Path: "/usr/bin/nvidia-cdi-hook", Args: []string{"nvidia-cdi-hook", "update-ldcache"},
			}}},
		}}, nil
	}
	g := New(Options{Dir: t.TempDir(), Sources: map[gpu.Vendor]Source{gpu.NVIDIA: source(theirs)}})
	c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: []gpu.Device{card(gpu.NVIDIA, 0, nil)}})
	if err != nil {
		t.Fatal(err)
	}
	spec := c.vendors[gpu.NVIDIA].Spec
	if spec.Kind != "nvidia.heteroflow.io/gpu" || spec.Version != "0.5.0" {
		t.Errorf("kind %s, version %s", spec.Kind, spec.Version)
	}
	if all := device(spec, All); all == nil || len(all.ContainerEdits.Env) > 0 || len(all.ContainerEdits.DeviceNodes) != 1 {
		t.Errorf("device all is %+v, want the node of the one card", all)
	}
	s, err := c.Select(gpu.NVIDIA, new(0), "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Translate([]Selection{s})
	if u, ok := errors.AsType[*UntranslatableError](err); !ok || !strings.Contains(u.Error(), "createContainer hook nvidia-cdi-hook update-ldcache") {
		t.Errorf("got %v, want the hook refused by name", err)
	}
}

func TestASpecThatCannotBeMadeAnewStays(t *testing.T) {
	g := fakeGenerator(t, "nvidia-container")
	hangs := false
	g.sources = map[gpu.Vendor]Source{gpu.NVIDIA: source(func(v gpu.Vendor, devices []gpu.Device) (Made, error) {
		if hangs {
			return Made{}, errors.New("the helper hangs")
		}
		return g.own.Make(t.Context(), v, devices)
	})}
	for range 2 {
		c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: nodes["nvidia-container"]})
		if (err != nil) != hangs {
			t.Fatal(err)
		}
		if _, err := c.Save(); err != nil {
			t.Fatal(err)
		}
		hangs = true
	}
	if _, err := os.Stat(filepath.Join(g.Dir(), "heteroflow-nvidia.json")); err != nil {
		t.Error(err)
	}
}

func TestTheRecipeServesEnginesThatCannotRunAVendorsHooks(t *testing.T) {
	theirs := func(gpu.Vendor, []gpu.Device) (Made, error) {
		return Made{Spec: &specs.Spec{
			Devices:        []specs.Device{{Name: "0", ContainerEdits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/dev/theirs"}}}}},
			ContainerEdits: specs.ContainerEdits{Hooks: []*specs.Hook{{HookName: "createContainer", Path: "/hook"}}},
		}}, nil
	}
	g := fakeGenerator(t, "nvidia-container")
	g.sources = map[gpu.Vendor]Source{gpu.NVIDIA: source(theirs)}
	c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: nodes["nvidia-container"]})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Select(gpu.NVIDIA, new(0), "")
	if err != nil {
		t.Fatal(err)
	}
	edits, err := c.Translate([]Selection{s})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, n := range edits.Nodes {
		paths = append(paths, n.Path)
	}
	if diff := cmp.Diff([]string{"/dev/nvidiactl", "/dev/nvidia0"}, paths); diff != "" || len(edits.Mounts) == 0 {
		t.Errorf("%d mounts, nodes (-want +got):\n%s", len(edits.Mounts), diff)
	}
	if spec := string(c.vendors[gpu.NVIDIA].data); !strings.Contains(spec, "/dev/theirs") {
		t.Errorf("the file has not the vendor's own spec: %s", spec)
	}
}

func TestASpecThatBreaksTheRulesIsRefused(t *testing.T) {
	edits := func(e specs.ContainerEdits) source {
		return func(gpu.Vendor, []gpu.Device) (Made, error) {
			return Made{Spec: &specs.Spec{Devices: []specs.Device{{Name: "0", ContainerEdits: e}}}}, nil
		}
	}
	cases := map[string]struct {
		source source
		want   string
	}{
		"a relative device node": {edits(specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "dev/x"}}}), "clean absolute path"},
		"a mount with dots":      {edits(specs.ContainerEdits{Mounts: []*specs.Mount{{HostPath: "/a/../b", ContainerPath: "/b"}}}), "clean absolute path"},
		"an env without a value": {edits(specs.ContainerEdits{Env: []string{"X"}}), "environment variable"},
		"an unknown hook":        {edits(specs.ContainerEdits{Hooks: []*specs.Hook{{HookName: "later", Path: "/x"}}}), "hook name"},
		"an empty node":          {edits(specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{nil}}), "empty entry"},
		"a device twice": {func(gpu.Vendor, []gpu.Device) (Made, error) {
			d := specs.Device{Name: "0", ContainerEdits: specs.ContainerEdits{Env: []string{"A=1"}}}
			return Made{Spec: &specs.Spec{Devices: []specs.Device{d, d}}}, nil
		}, "twice"},
		"no answer at all": {func(gpu.Vendor, []gpu.Device) (Made, error) { return Made{}, errors.New("the helper hangs") }, "the helper hangs"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := New(Options{Dir: t.TempDir(), Sources: map[gpu.Vendor]Source{gpu.NVIDIA: tc.source}})
			c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: []gpu.Device{card(gpu.NVIDIA, 0, nil)}})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error that says %q", err, tc.want)
			}
			if changed, err := c.Save(); len(changed) > 0 || err != nil {
				t.Errorf("saved %v, %v", changed, err)
			}
			_, err = c.Select(gpu.NVIDIA, new(0), "")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("select says %v, want why there is no spec", err)
			}
		})
	}
}

func TestRealDeviceNodesAreReadAsTheKernelHasThem(t *testing.T) {
	n, err := numberOf("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if n.kind != "c" || n.major != 1 || n.minor != 3 || n.mode != 0o666 {
		t.Errorf("/dev/null is %+v, want c 1:3 with mode 0666", n)
	}
	if _, err := numberOf("/etc/passwd"); !errors.Is(err, errNoDeviceNode) {
		t.Errorf("/etc/passwd: %v", err)
	}
}

func TestPathsAreTheEnginesWhereItSeesTheHostElsewhere(t *testing.T) {
	g := fakeGenerator(t, "enflame")
	g.own.host.engineRoot = "/host"
	c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: nodes["enflame"]})
	if err != nil {
		t.Fatal(err)
	}
	spec := c.vendors[gpu.Enflame].Spec
	if n := device(spec, "0").ContainerEdits.DeviceNodes[0]; n.HostPath != "/host/dev/gcu1" || n.Path != "/dev/gcu1" {
		t.Errorf("node %+v", n)
	}
	if m := spec.ContainerEdits.Mounts[0]; m.HostPath != "/host/usr/bin/efsmi" || m.ContainerPath != "/usr/bin/efsmi" {
		t.Errorf("mount %+v", m)
	}
}

func FuzzParseSpec(f *testing.F) {
	for name := range nodes {
		if data, err := os.ReadFile(filepath.Join("testdata/golden", name+".json")); err == nil {
			f.Add(data)
		}
	}
	f.Add([]byte("cdiVersion: 0.5.0\nkind: a.example/b\ndevices: [{name: x, containerEdits: {deviceNodes: [null], mounts: [~], hooks: [~]}}]"))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := ParseSpec(data)
		if err != nil {
			return
		}
		e := &entry{Made: Made{Spec: spec}}
		c := &Catalog{host: host{root: "/", number: numberOf}, vendors: map[gpu.Vendor]*entry{gpu.NVIDIA: e}}
		for _, d := range spec.Devices {
			s := []Selection{{Name: QualifiedName(gpu.NVIDIA, d.Name), Vendor: gpu.NVIDIA}}
			edits, err := c.Translate(s)
			if err == nil && len(edits.Nodes) > len(d.ContainerEdits.DeviceNodes)+len(spec.ContainerEdits.DeviceNodes) {
				t.Fatalf("more device nodes than the spec has: %+v", edits.Nodes)
			}
		}
	})
}

func FuzzTegraList(f *testing.F) {
	f.Add([]byte("dev, /dev/nvmap\nlib,/usr/lib/x.so\r\nsym, /a/../b\n# dev, x\ndir, /\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, e := range parseTegraList(data) {
			if !filepath.IsAbs(e.path) || filepath.Clean(e.path) != e.path || e.path == "/" {
				t.Fatalf("%q is no path to mount", e.path)
			}
		}
	})
}

func FuzzCapMinors(f *testing.F) {
	f.Add([]byte("config 1\nmonitor 2\ngpu0/gi0/access 3\ngpu0/gi0/ci0/access 4\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, minor := range parseCapMinors(data) {
			if !strings.Contains(string(data), name) || minor < 0 {
				t.Fatalf("%q has minor %d", name, minor)
			}
		}
	})
}
