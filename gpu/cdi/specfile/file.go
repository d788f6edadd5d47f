package specfile

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
)

// File is a spec file.
type File struct {
	Path   string
	Vendor gpu.Vendor  // whose cards it has, if the file is the agent's own; "": it is somebody else's
	Spec   *specs.Spec // nil: Err
	Data   []byte
	Err    error // why the file cannot be used
}

const (
	prefix = "heteroflow-"
	suffix = ".json"
)

// Path is the file of a vendor's spec in a directory.
func Path(dir string, v gpu.Vendor) string {
	return filepath.Join(dir, prefix+string(v)+suffix)
}

// vendorOf is the vendor whose spec has a file name of ours.
func vendorOf(name string) (gpu.Vendor, bool) {
	name, ours := strings.CutPrefix(name, prefix)
	name, spec := strings.CutSuffix(name, suffix)
	vendor, err := gpu.ParseVendor(name)
	return vendor, ours && spec && err == nil
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
