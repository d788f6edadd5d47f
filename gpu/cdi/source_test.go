package cdi

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/edits"
	"github.com/heteroflow/node-agent/gpu/cdi/hosttest"
	"github.com/heteroflow/node-agent/gpu/cdi/spec"
	"github.com/heteroflow/node-agent/gpu/cdi/specfile"
)

// source is somebody else's library.
type source func(vendor gpu.Vendor, devices []gpu.Device) (spec.Made, error)

func (s source) Make(_ context.Context, vendor gpu.Vendor, devices []gpu.Device) (spec.Made, error) {
	return s(vendor, devices)
}

func TestAVendorsOwnSpecTakesTheRecipesPlace(t *testing.T) {
	theirs := func(gpu.Vendor, []gpu.Device) (spec.Made, error) {
		return spec.Made{Spec: &specs.Spec{
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
	g := &Generator{Dir: t.TempDir(), Sources: map[gpu.Vendor]spec.Source{gpu.NVIDIA: source(theirs)}}
	c := generate(t, g, hosttest.Card(gpu.NVIDIA, 0, nil))
	made := c.vendors[gpu.NVIDIA].Spec
	if made.Kind != "nvidia.heteroflow.io/gpu" || made.Version != "0.5.0" {
		t.Errorf("kind %s, version %s", made.Kind, made.Version)
	}
	if all := spec.Device(made, "all"); all == nil || len(all.ContainerEdits.Env) > 0 || len(all.ContainerEdits.DeviceNodes) != 1 {
		t.Errorf("device all is %+v, want the node of the one card", all)
	}
	s, err := c.Select(gpu.NVIDIA, new(0), "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Translate([]Selection{s})
	if u, ok := errors.AsType[*edits.UntranslatableError](err); !ok || !strings.Contains(u.Error(), "createContainer hook nvidia-cdi-hook update-ldcache") {
		t.Errorf("got %v, want the hook refused by name", err)
	}
}

func TestASpecThatCannotBeMadeAnewStays(t *testing.T) {
	g := generator(t, "nvidia-container")
	hangs := false
	g.Sources = map[gpu.Vendor]spec.Source{gpu.NVIDIA: source(func(v gpu.Vendor, devices []gpu.Device) (spec.Made, error) {
		if hangs {
			return spec.Made{}, errors.New("the helper hangs")
		}
		return g.recipes().Make(t.Context(), v, devices)
	})}
	for range 2 {
		c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: hosttest.Devices["nvidia-container"]})
		if (err != nil) != hangs {
			t.Fatal(err)
		}
		if _, err := c.Save(); err != nil {
			t.Fatal(err)
		}
		hangs = true
	}
	if _, err := os.Stat(specfile.Path(g.Dir, gpu.NVIDIA)); err != nil {
		t.Error(err)
	}
}

func TestTheRecipeServesEnginesThatCannotRunAVendorsHooks(t *testing.T) {
	theirs := func(gpu.Vendor, []gpu.Device) (spec.Made, error) {
		return spec.Made{Spec: &specs.Spec{
			Devices:        []specs.Device{{Name: "0", ContainerEdits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/dev/theirs"}}}}},
			ContainerEdits: specs.ContainerEdits{Hooks: []*specs.Hook{{HookName: "createContainer", Path: "/hook"}}},
		}}, nil
	}
	g := generator(t, "nvidia-container")
	g.Sources = map[gpu.Vendor]spec.Source{gpu.NVIDIA: source(theirs)}
	c := generate(t, g, hosttest.Devices["nvidia-container"]...)
	s, err := c.Select(gpu.NVIDIA, new(0), "")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := c.Translate([]Selection{s})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, n := range plain.Nodes {
		paths = append(paths, n.Path)
	}
	if diff := cmp.Diff([]string{"/dev/nvidiactl", "/dev/nvidia0"}, paths); diff != "" || len(plain.Mounts) == 0 {
		t.Errorf("%d mounts, nodes (-want +got):\n%s", len(plain.Mounts), diff)
	}
	if text := string(c.vendors[gpu.NVIDIA].data); !strings.Contains(text, "/dev/theirs") {
		t.Errorf("the file has not the vendor's own spec: %s", text)
	}
}

func TestASpecThatBreaksTheRulesIsRefused(t *testing.T) {
	making := func(e specs.ContainerEdits) source {
		return func(gpu.Vendor, []gpu.Device) (spec.Made, error) {
			return spec.Made{Spec: &specs.Spec{Devices: []specs.Device{{Name: "0", ContainerEdits: e}}}}, nil
		}
	}
	cases := map[string]struct {
		source source
		want   string
	}{
		"a relative device node": {making(specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "dev/x"}}}), "clean absolute path"},
		"a mount with dots":      {making(specs.ContainerEdits{Mounts: []*specs.Mount{{HostPath: "/a/../b", ContainerPath: "/b"}}}), "clean absolute path"},
		"an env without a value": {making(specs.ContainerEdits{Env: []string{"X"}}), "environment variable"},
		"an unknown hook":        {making(specs.ContainerEdits{Hooks: []*specs.Hook{{HookName: "later", Path: "/x"}}}), "hook name"},
		"an empty node":          {making(specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{nil}}), "empty entry"},
		"a device twice": {func(gpu.Vendor, []gpu.Device) (spec.Made, error) {
			d := specs.Device{Name: "0", ContainerEdits: specs.ContainerEdits{Env: []string{"A=1"}}}
			return spec.Made{Spec: &specs.Spec{Devices: []specs.Device{d, d}}}, nil
		}, "twice"},
		"no answer at all": {func(gpu.Vendor, []gpu.Device) (spec.Made, error) { return spec.Made{}, errors.New("the helper hangs") }, "the helper hangs"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := &Generator{Dir: t.TempDir(), Sources: map[gpu.Vendor]spec.Source{gpu.NVIDIA: tc.source}}
			c, err := g.Generate(t.Context(), gpu.Snapshot{Devices: []gpu.Device{hosttest.Card(gpu.NVIDIA, 0, nil)}})
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
