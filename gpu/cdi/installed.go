package cdi

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"golang.org/x/sys/unix"
	lib "tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
)

// StaticDir is where administrators put specs. Engines read it, too, and prefer DefaultDir.
const StaticDir = lib.DefaultStaticDir

// File is a spec file.
type File struct {
	Path   string
	Vendor gpu.Vendor  // whose cards it has, if the file is the agent's own; "": it is somebody else's
	Spec   *specs.Spec // nil: Err
	Data   []byte
	Err    error // why the file cannot be used
}

// Installed reads the spec files in directories, as engines do: of a device in several
// directories, that in the last one counts. A directory that does not exist has none.
func (g *Generator) Installed(dirs ...string) ([]File, error) {
	var files []File
	seen := map[string]bool{}
	for _, dir := range dirs {
		resolved, err := filepath.EvalSymlinks(dir)
		if errors.Is(err, fs.ErrNotExist) || err == nil && seen[resolved] {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read CDI specs: %w", err)
		}
		seen[resolved] = true
		entries, err := os.ReadDir(resolved)
		if err != nil {
			return nil, fmt.Errorf("read CDI specs: %w", err)
		}
		for _, e := range entries {
			if ext := filepath.Ext(e.Name()); e.IsDir() || ext != ".json" && ext != ".yaml" {
				continue
			}
			f := File{Path: filepath.Join(dir, e.Name())}
			if filepath.Clean(dir) == filepath.Clean(g.dir) {
				f.Vendor, _ = vendorOf(e.Name())
			}
			f.read()
			files = append(files, f)
		}
	}
	return files, nil
}

// read reads the file. The rules for what is not the agent's own are those of CDI alone.
func (f *File) read() {
	if f.Data, f.Err = readSpecFile(f.Path); f.Err != nil {
		return
	}
	if f.Vendor != "" {
		f.Spec, f.Err = ParseSpec(f.Data)
		return
	}
	spec, err := lib.ParseSpec(f.Data)
	switch {
	case err != nil:
		f.Err = err
	case spec == nil:
		f.Err = errEmpty
	default:
		if f.Err = whole(spec); f.Err == nil {
			f.Spec = spec
		}
	}
}

func readSpecFile(name string) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe must not hold us
	if err != nil {
		return nil, plain(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(errors.New("not a regular file"), err)
	}
	data, err := io.ReadAll(io.LimitReader(file, MaxSpecBytes+1))
	switch {
	case err != nil:
		return nil, plain(err)
	case len(data) > MaxSpecBytes:
		return nil, fmt.Errorf("more than %d bytes", MaxSpecBytes)
	}
	return data, nil
}

// Entry is a device that engines find in a spec file.
type Entry struct {
	Name    string   `json:"name"` // qualified
	File    string   `json:"file"`
	Nodes   []string `json:"nodes"`   // that a container with it gets
	Aliases []string `json:"aliases"` // names in the file of the same devices
}

// Entries lists the devices of a file; none where it cannot be used.
func (f File) Entries() []Entry {
	if f.Spec == nil {
		return nil
	}
	entries := make([]Entry, 0, len(f.Spec.Devices))
	for _, d := range f.Spec.Devices {
		e := Entry{Name: f.Spec.Kind + "=" + d.Name, File: f.Path, Nodes: []string{}, Aliases: []string{}}
		for _, n := range slices.Concat(f.Spec.ContainerEdits.DeviceNodes, d.ContainerEdits.DeviceNodes) {
			if !slices.Contains(e.Nodes, n.Path) {
				e.Nodes = append(e.Nodes, n.Path)
			}
		}
		for _, other := range f.Spec.Devices {
			if other.Name != d.Name && reflect.DeepEqual(other.ContainerEdits, d.ContainerEdits) {
				e.Aliases = append(e.Aliases, other.Name)
			}
		}
		entries = append(entries, e)
	}
	return entries
}
