// Package corpus is test support: it reads recorded outputs of vendors' tools,
// each with the parse that is right beside it, and holds a detector's Parse
// against them. It is imported by tests only and starts no goroutine.
//
// The recordings are not part of this repository (they are under many
// licences). They are looked for in the directory named by HFTEST_GPU_OUTPUTS,
// else in ../shared/gpu-outputs beside the repository; where they are absent the
// tests say so and skip.
package corpus

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// KnownGaps are files that Parse is known to get wrong: name (without .yaml) →
// why. A gap that has become right fails the test, so that the list stays true.
type KnownGaps map[string]string

// Check parses every recorded output of one vendor and compares the result with
// what is expected of it. It logs how many files are right.
func Check(t *testing.T, vendor gpu.Vendor, parse gpu.ParseFunc, gaps KnownGaps) {
	t.Helper()
	files := Load(t, vendor)
	var wrong []string
	for _, f := range files {
		t.Run(f.Name, func(t *testing.T) {
			problems := f.Compare(parse)
			why, known := gaps[f.Name]
			switch {
			case known && len(problems) == 0:
				t.Errorf("is right now: remove it from the known gaps (%s)", why)
			case known:
				wrong = append(wrong, f.Name+": "+why)
			case len(problems) > 0:
				wrong = append(wrong, f.Name+": "+strings.Join(problems, "; "))
				t.Errorf("%s\n  %s", f.Command, strings.Join(problems, "\n  "))
			}
		})
	}
	for name := range gaps {
		if !slices.ContainsFunc(files, func(f File) bool { return f.Name == name }) {
			t.Errorf("known gap %s: no such file", name)
		}
	}
	t.Logf("%s: %d of %d files right", vendor, len(files)-len(wrong), len(files))
	for _, w := range wrong {
		t.Logf("  wrong: %s", w)
	}
}

// File is one recorded output.
type File struct {
	Vendor  gpu.Vendor
	Name    string
	Output  []byte
	Command string
	Exit    *int // nil: not recorded
	Expect  Expect
}

// Load returns a vendor's recordings in the order of their names, or skips the
// test when there are none on this machine.
func Load(t *testing.T, vendor gpu.Vendor) []File {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Skipf("recorded outputs are absent, not checked against them: %v", err)
	}
	paths, err := filepath.Glob(filepath.Join(root, string(vendor), "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skipf("no recorded output of %s in %s", vendor, root)
	}
	files := make([]File, 0, len(paths))
	for _, path := range paths {
		f, err := load(vendor, path)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func load(vendor gpu.Vendor, path string) (File, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return File{}, err
	}
	var doc struct {
		Command string `yaml:"command"`
		Output  string `yaml:"output"`
		Exit    *int   `yaml:"exit_code"`
		Expect  Expect `yaml:"expect"`
	}
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return File{}, fmt.Errorf("read %s: %w", path, err)
	}
	out, err := os.ReadFile(filepath.Join(filepath.Dir(path), doc.Output))
	if err != nil {
		return File{}, err
	}
	return File{
		Vendor: vendor,
		Name:   strings.TrimSuffix(filepath.Base(path), ".yaml"),
		Output: out, Command: doc.Command, Exit: doc.Exit, Expect: doc.Expect,
	}, nil
}

// Root returns the directory of the recordings.
func Root() (string, error) {
	if dir := os.Getenv("HFTEST_GPU_OUTPUTS"); dir != "" {
		return dir, exists(dir)
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for exists(filepath.Join(dir, "go.mod")) != nil {
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
	dir = filepath.Join(filepath.Dir(dir), "shared", "gpu-outputs")
	return dir, exists(dir)
}

func exists(path string) error {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s does not exist", path)
	}
	return err
}

// Parse runs parse on the recording. An exit status that was not recorded is
// taken as 0, or as 1 where the output is the error of the whole tool.
func (f File) Parse(parse gpu.ParseFunc) (gpu.Parsed, error) {
	exit := 0
	switch {
	case f.Exit != nil:
		exit = *f.Exit
	case f.Expect.CollectorError != nil:
		exit = 1
	}
	return parse(text.SplitCommand(f.Command), exit, f.Output)
}
