package specfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/gpu"
)

// nvidia is the text of a spec of the agent's own.
func nvidia(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../testdata/golden/nvidia.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func makeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestWhoeverHasMadeAFileItIsReadAsEnginesDo(t *testing.T) {
	own, dir := t.TempDir(), t.TempDir()
	makeFile(t, Path(own, gpu.NVIDIA), string(nvidia(t)))
	makeFile(t, filepath.Join(dir, "broken.yaml"), "kind: [")
	makeFile(t, filepath.Join(dir, "holes.yaml"), "cdiVersion: 0.5.0\nkind: a.example/b\ndevices: [{name: x, containerEdits: {deviceNodes: [~]}}]\n")
	makeFile(t, filepath.Join(dir, "empty.json"), "")
	makeFile(t, filepath.Join(dir, "notes.txt"), "nothing")
	makeFile(t, filepath.Join(dir, "below", "x.json"), "{}")
	makeFile(t, filepath.Join(dir, "theirs.yaml"), "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices: [{name: all, containerEdits: {deviceNodes: [{path: dev/x}]}}]\n")
	if err := unix.Mkfifo(filepath.Join(dir, "pipe.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	files, err := Installed(own, dir, link, filepath.Join(dir, "absent"), own)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{} // whether it can be used
	for _, f := range files {
		got[filepath.Base(f.Path)] = f.Err == nil
	}
	want := map[string]bool{
		"broken.yaml": false, "holes.yaml": false, "empty.json": false, "theirs.yaml": true, "pipe.json": false,
		"heteroflow-nvidia.json": true,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(files) != len(want) {
		t.Errorf("%d files (-want +got):\n%s", len(files), diff)
	}
	for _, f := range files {
		if ours := filepath.Dir(f.Path) == own; (f.Vendor == gpu.NVIDIA) != ours {
			t.Errorf("%s counts as that of vendor %q", f.Path, f.Vendor)
		}
	}
	if _, err := Installed(own, filepath.Join(dir, "theirs.yaml")); err == nil {
		t.Error("a file is taken for a directory")
	}
}

func TestEntriesSayWhichNamesAreTheSameDevice(t *testing.T) {
	own := t.TempDir()
	makeFile(t, Path(own, gpu.NVIDIA), string(nvidia(t)))
	files, err := Installed(own, own)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		for _, e := range f.Entries() {
			got = append(got, strings.Join(append([]string{e.Name, strings.Join(e.Nodes, " ")}, e.Aliases...), " | "))
		}
	}
	const shared = "/dev/nvidiactl /dev/nvidia-uvm /dev/nvidia-uvm-tools "
	want := []string{
		"nvidia.heteroflow.io/gpu=MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee | " + shared + "/dev/nvidia1 /dev/nvidia-caps/nvidia-cap12 /dev/nvidia-caps/nvidia-cap13",
		"nvidia.heteroflow.io/gpu=1 | " + shared + "/dev/nvidia0 | GPU-66666666-2222-3333-4444-555555555555 | all",
		"nvidia.heteroflow.io/gpu=GPU-66666666-2222-3333-4444-555555555555 | " + shared + "/dev/nvidia0 | 1 | all",
		"nvidia.heteroflow.io/gpu=all | " + shared + "/dev/nvidia0 | 1 | GPU-66666666-2222-3333-4444-555555555555",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
