// Package check says what is wrong with the agent's CDI specs on this machine, for people:
// it holds the files against the host's device nodes, files and hooks, and against the specs
// of others. It asks no vendor's tool, changes nothing, and starts no goroutine.
package check

import (
	"cmp"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/cdi/spec"
	"github.com/heteroflow/node-agent/gpu/cdi/specfile"
)

// Problem is a reason for which a container may not get a device.
type Problem struct {
	File    string   `json:"file"`
	Devices []string `json:"devices,omitempty"` // by their names in the file; none: all
	What    string   `json:"what"`
	Do      string   `json:"do"` // for the operator
}

const (
	anew    = `run "heteroflow-agent cdi generate"`
	restore = `bring it back, or ` + anew + ` if the driver has changed`
)

// Files holds the agent's own among the installed files against the rules of CDI, against
// the host, and against the other files.
func Files(host hostfs.FS, files []specfile.File) []Problem {
	var problems []Problem
	for _, f := range files {
		switch {
		case f.Vendor == "" && f.Spec != nil:
			problems = append(problems, conflicts(f, files)...)
		case f.Vendor == "":
			// Engines pass it over, and it is not ours to repair.
		case f.Err != nil:
			problems = append(problems, Problem{File: f.Path, What: f.Err.Error(), Do: anew})
		default:
			problems = append(problems, against(host, f)...)
		}
	}
	return problems
}

// conflicts says what a file that is somebody else's does to the agent's own.
func conflicts(other specfile.File, files []specfile.File) []Problem {
	if !slices.ContainsFunc(gpu.Vendors(), func(v gpu.Vendor) bool { return other.Spec.Kind == spec.Kind(v) }) {
		return nil
	}
	problem := Problem{
		File: other.Path, Do: "remove it or give it another kind",
		What: fmt.Sprintf("it is not the agent's, but its kind, %s, is", other.Spec.Kind),
	}
	at := slices.IndexFunc(files, func(f specfile.File) bool { return f.Path == other.Path })
	for i, ours := range files {
		if ours.Vendor == "" || ours.Spec == nil || ours.Spec.Kind != other.Spec.Kind {
			continue
		}
		for _, d := range other.Spec.Devices {
			if spec.Device(ours.Spec, d.Name) != nil {
				problem.Devices = append(problem.Devices, d.Name)
			}
		}
		switch {
		case len(problem.Devices) == 0:
		case filepath.Dir(ours.Path) == filepath.Dir(other.Path):
			problem.What += "; engines refuse devices that are in two files"
		case at > i:
			problem.What += "; engines take its devices in place of those in " + ours.Path
		default:
			problem.What += "; engines take its devices whenever " + ours.Path + " is missing"
		}
	}
	return []Problem{problem}
}

// against holds one of the agent's own files against the host.
func against(host hostfs.FS, f specfile.File) []Problem {
	c := checking{host: host, file: f.Path}
	if want := spec.Kind(f.Vendor); f.Spec.Kind != want {
		c.add("", fmt.Sprintf("its kind is %s, not %s", f.Spec.Kind, want), anew)
	}
	c.edits("", f.Spec.ContainerEdits)
	for _, d := range f.Spec.Devices {
		c.edits(d.Name, d.ContainerEdits)
	}
	return c.problems
}

// checking is a check of one file.
type checking struct {
	host     hostfs.FS
	file     string
	problems []Problem
}

// add notes a problem of a device, "" for all, once for the devices that share it.
func (c *checking) add(device, what, do string) {
	i := slices.IndexFunc(c.problems, func(p Problem) bool { return p.What == what && (len(p.Devices) == 0) == (device == "") })
	if i < 0 {
		c.problems = append(c.problems, Problem{File: c.file, What: what, Do: do})
		i = len(c.problems) - 1
	}
	if device != "" && !slices.Contains(c.problems[i].Devices, device) {
		c.problems[i].Devices = append(c.problems[i].Devices, device)
	}
}

func (c *checking) edits(device string, e specs.ContainerEdits) {
	for _, n := range e.DeviceNodes {
		c.node(device, n)
	}
	for _, m := range e.Mounts {
		if m.Type != "" && m.Type != "bind" && m.Type != "none" {
			continue // its source is no file
		}
		if _, err := c.host.EngineFile(m.HostPath); err != nil {
			c.add(device, fmt.Sprintf("mount %s: %v", m.HostPath, err), restore)
		}
	}
	for _, h := range e.Hooks {
		info, err := c.host.EngineFile(h.Path)
		switch {
		case err != nil:
			c.add(device, fmt.Sprintf("hook %s: %v", h.Path, err), "install its package, or "+anew+" to do without it")
		case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
			c.add(device, fmt.Sprintf("hook %s: not executable", h.Path), "install its package anew")
		}
	}
}

// node holds a device node against the host's.
func (c *checking) node(device string, n *specs.DeviceNode) {
	if n.Type == "p" {
		return // the engine makes it from nothing
	}
	name := cmp.Or(n.HostPath, n.Path)
	have, err := c.host.EngineNode(name)
	if err != nil {
		c.add(device, fmt.Sprintf("device node %s: %v", name, err), "load the vendor's driver, or "+anew+" if the card is gone")
		return
	}
	var wrong []string
	if want := specType(n); want != "" && want != have.Type {
		wrong = append(wrong, fmt.Sprintf("type %s, in the file %s", have.Type, want))
	}
	if (n.Major != 0 || n.Minor != 0) && (n.Major != have.Major || n.Minor != have.Minor) {
		wrong = append(wrong, fmt.Sprintf("numbers %d:%d, in the file %d:%d", have.Major, have.Minor, n.Major, n.Minor))
	}
	if n.FileMode != nil && *n.FileMode&fs.ModePerm != have.Mode {
		wrong = append(wrong, fmt.Sprintf("mode %#o, in the file %#o", have.Mode, *n.FileMode&fs.ModePerm))
	}
	if len(wrong) > 0 {
		c.add(device, fmt.Sprintf("device node %s has %s", name, strings.Join(wrong, "; ")), anew)
	}
}

// specType is the type that a spec says a node has; "u" is another word for "c".
func specType(n *specs.DeviceNode) string {
	if n.Type == "u" {
		return "c"
	}
	return n.Type
}
