package tool

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"
)

// ManifestName is the file that lists a recording's commands.
const ManifestName = "manifest.yaml"

// manifestVersion is the only version of the format there is.
const manifestVersion = 1

// maxManifest and maxRecorded bound what is read of a recording, which may come
// from a stranger's bug report.
const (
	maxManifest = 4 << 20
	maxRecorded = 64 << 20
)

// manifest is the file format.
type manifest struct {
	Version  int             `yaml:"version"`
	Commands []manifestEntry `yaml:"commands"`
}

type manifestEntry struct {
	Argv       []string `yaml:"argv"`
	Input      string   `yaml:"stdin,omitempty"`
	ExitCode   int      `yaml:"exit_code"`
	Stdout     string   `yaml:"stdout,omitempty"` // a file beside the manifest
	Stderr     string   `yaml:"stderr,omitempty"`
	DurationMS int64    `yaml:"duration_ms"`
	Error      string   `yaml:"error,omitempty"` // errTimeout, errHung; absent: it ended
}

// What became of a recorded command that did not end by itself.
const (
	errTimeout = "timeout"
	errHung    = "hung"
)

// Recorded is one command of a recording.
type Recorded struct {
	Result
	Input string
	Error string // "timeout", "hung", or "" when the command ended by itself
}

// ReadRecording reads the commands of a recording. Files are taken from the
// directory itself only, and bounded.
func ReadRecording(dir string) ([]Recorded, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	defer root.Close() //nolint:errcheck // only read from
	raw, err := readBounded(root, ManifestName, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("read recording %s: %w", dir, err)
	}
	var m manifest
	if err := yaml.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, ManifestName), err)
	}
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("read %s: version %d, want %d",
			filepath.Join(dir, ManifestName), m.Version, manifestVersion)
	}
	commands := make([]Recorded, 0, len(m.Commands))
	for i, e := range m.Commands {
		if len(e.Argv) == 0 || e.Argv[0] == "" {
			return nil, fmt.Errorf("read %s: command %d has no argv", filepath.Join(dir, ManifestName), i)
		}
		rec := Recorded{Input: e.Input, Error: e.Error, Result: Result{
			Argv: e.Argv, ExitCode: e.ExitCode, Duration: time.Duration(e.DurationMS) * time.Millisecond,
		}}
		if rec.Stdout, err = readBounded(root, e.Stdout, maxRecorded); err != nil {
			return nil, fmt.Errorf("read output of %v: %w", e.Argv, err)
		}
		if rec.Stderr, err = readBounded(root, e.Stderr, maxRecorded); err != nil {
			return nil, fmt.Errorf("read output of %v: %w", e.Argv, err)
		}
		commands = append(commands, rec)
	}
	return commands, nil
}

// readBounded reads a file of the recording; "" is an output that was empty.
func readBounded(root *os.Root, name string, limit int64) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("%s is not a file of at most %d bytes", name, limit)
	}
	return root.ReadFile(name)
}
