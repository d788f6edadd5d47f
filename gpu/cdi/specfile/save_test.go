package specfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/gpu"
)

func none(gpu.Vendor) bool { return false }

func TestASpecFileIsReadableByEnginesOfOtherUsers(t *testing.T) {
	file := Path(filepath.Join(t.TempDir(), "cdi"), gpu.Enflame)
	changed, err := Save(filepath.Dir(file), []File{{Path: file, Vendor: gpu.Enflame, Data: []byte("{}")}}, none)
	if err != nil || !slices.Equal(changed, []string{file}) {
		t.Fatalf("changed %v, %v", changed, err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestADirectoryThatCannotBeWrittenIsAnError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "file")
	makeFile(t, dir, "")
	if _, err := Save(dir, nil, none); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v, want an error that names the directory", err)
	}
}

func TestNothingButFilesOfVendorsOfOursIsRemoved(t *testing.T) {
	dir := t.TempDir()
	stay := []string{"nvidia.yaml", "heteroflow-other.json", "heteroflow-nvidia.yaml", "heteroflow-nvidia.json.bak", "heteroflow-ascend.json"}
	for _, name := range append(stay, "heteroflow-nvidia.json") {
		makeFile(t, filepath.Join(dir, name), name)
	}
	removed, err := Save(dir, nil, func(v gpu.Vendor) bool { return v == gpu.Ascend })
	if err != nil || !slices.Equal(removed, []string{Path(dir, gpu.NVIDIA)}) {
		t.Errorf("removed %v, %v", removed, err)
	}
	for _, name := range stay {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != name {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
}
