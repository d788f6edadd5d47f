package cdi

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/edits"
	"github.com/heteroflow/node-agent/gpu/cdi/specfile"
)

func TestFilesFollowTheInventory(t *testing.T) {
	dir := t.TempDir()
	save := func(change func(*gpu.Snapshot)) []string {
		c := catalogOf(t, "nvidia", change)
		c.dir = dir
		changed, err := c.Save()
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	file := specfile.Path(dir, gpu.NVIDIA)
	steps := []struct {
		name   string
		change func(*gpu.Snapshot)
		want   []string
		exists bool
	}{
		{"the first time", nil, []string{file}, true},
		{"with nothing new", nil, nil, true},
		{"with another device", func(s *gpu.Snapshot) { s.Devices = s.Devices[1:] }, []string{file}, true},
		{"with a tool that fails", func(s *gpu.Snapshot) {
			s.Devices, s.Vendors = nil, []gpu.VendorStatus{{Vendor: gpu.NVIDIA, Error: &gpu.CollectorError{Code: "hung"}}}
		}, nil, true},
		{"with no device any more", func(s *gpu.Snapshot) { s.Devices = nil }, []string{file}, false},
	}
	for _, step := range steps {
		if diff := cmp.Diff(step.want, save(step.change)); diff != "" {
			t.Errorf("%s: changed (-want +got):\n%s", step.name, diff)
		}
		if _, err := os.Stat(file); (err == nil) != step.exists {
			t.Errorf("%s: file is there: %v", step.name, err == nil)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left in the directory: %v, %v", entries, err)
	}
}

func TestTranslationSaysTheSameInPlainWords(t *testing.T) {
	c := catalogOf(t, "hygon", nil)
	s, err := c.Select(gpu.Hygon, new(0), "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Translate([]Selection{s})
	if err != nil {
		t.Fatal(err)
	}
	if groups, err := c.Groups([]Selection{s}); err != nil || !cmp.Equal(groups, []uint32{44}) {
		t.Errorf("groups %v, %v", groups, err)
	}
	node := func(name string, major, minor int64) edits.Node {
		return edits.Node{HostPath: name, Path: name, Type: "c", Major: major, Minor: minor, Permissions: "rw"}
	}
	want := edits.Plain{
		Nodes: []edits.Node{
			node("/dev/kfd", 10, 240), node("/dev/mkfd", 10, 241),
			node("/dev/dri/card1", 226, 1), node("/dev/dri/renderD128", 226, 128),
		},
		Mounts: []edits.Mount{{Source: "/opt/hyhal-2.0", Target: "/opt/hyhal", ReadOnly: true}},
		Groups: []uint32{44}, // the nodes are closed to others
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
