package cdi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
)

// DefaultDir is where specs go: that of generated ones, which every engine reads.
const DefaultDir = "/var/run/cdi"

// All is the name of the device that is every whole card of a vendor.
const All = "all"

// Options make a Generator. The zero value is right on a host.
type Options struct {
	// Dir is where the spec files go; "" means DefaultDir.
	Dir string
	// Root is where this process sees the host's file system; "" means "/".
	Root string
	// EngineRoot is where the container engine sees it; "" means "/".
	EngineRoot string
	// Sources are asked instead of this package's own recipes.
	Sources map[gpu.Vendor]Source
}

// Generator makes catalogs.
type Generator struct {
	dir     string
	own     recipes
	sources map[gpu.Vendor]Source
}

// New makes a Generator.
func New(o Options) *Generator {
	g := &Generator{dir: o.Dir, sources: o.Sources}
	if g.dir == "" {
		g.dir = DefaultDir
	}
	if o.Root == "" {
		o.Root = "/"
	}
	g.own = recipes{host{root: o.Root, engineRoot: o.EngineRoot, number: numberOf}}
	return g
}

// Recipes is the source that a Generator asks by default, for others to fall back on. The
// roots are those of Options.
func Recipes(root, engineRoot string) Source {
	if root == "" {
		root = "/"
	}
	return recipes{host{root: root, engineRoot: engineRoot, number: numberOf}}
}

// Dir is where the spec files are.
func (g *Generator) Dir() string { return g.dir }

// Catalog is a node's devices as container engines know them, at one moment.
type Catalog struct {
	dir      string
	host     host
	snapshot gpu.Snapshot
	vendors  map[gpu.Vendor]*entry
}

// entry is one vendor's part.
type entry struct {
	Made
	file string
	data []byte      // of the spec; nil: there is none
	own  *specs.Spec // by this package's recipe, where Spec is somebody else's; nil: none
	// failed: the spec could not be made, which says nothing of an earlier one.
	failed bool
}

// spec is what engines that know CDI go by.
func (e *entry) spec() *specs.Spec { return e.Spec }

// plainSpec is the one with nothing that only they know, where there are two.
func (e *entry) plainSpec() *specs.Spec {
	if e.own != nil {
		return e.own
	}
	return e.Spec
}

// Generate makes the specs of all vendors whose devices are in the snapshot. It writes
// nothing. A vendor whose spec cannot be made is in the error; the others are in the
// catalog all the same.
func (g *Generator) Generate(ctx context.Context, s gpu.Snapshot) (*Catalog, error) {
	c := &Catalog{dir: g.dir, host: g.own.host, snapshot: s, vendors: map[gpu.Vendor]*entry{}}
	byVendor := map[gpu.Vendor][]gpu.Device{}
	for _, d := range s.Devices {
		byVendor[d.Vendor] = append(byVendor[d.Vendor], d)
	}
	var errs []error
	for _, vendor := range slices.Sorted(maps.Keys(byVendor)) {
		e, err := g.entry(ctx, vendor, byVendor[vendor])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", vendor, err))
			e.Absent, e.failed = nil, true
			for _, d := range byVendor[vendor] {
				e.Absent = append(e.Absent, Absence{Device: d, Reason: err.Error()})
			}
		}
		c.vendors[vendor] = e
	}
	return c, errors.Join(errs...)
}

// entry makes one vendor's part. It is of use, as one without a spec, after an error too.
func (g *Generator) entry(ctx context.Context, vendor gpu.Vendor, devices []gpu.Device) (*entry, error) {
	e := &entry{file: filepath.Join(g.dir, fileName(vendor))}
	var source Source = g.own
	theirs, foreign := g.sources[vendor]
	if foreign {
		source = theirs
	}
	made, err := source.Make(ctx, vendor, devices)
	if err != nil {
		return e, err
	}
	if made.Spec == nil {
		e.Made = made
		return e, nil
	}
	if err := complete(made.Spec, vendor, devices); err != nil {
		return e, err
	}
	if e.data, err = json.MarshalIndent(made.Spec, "", "  "); err != nil {
		return e, fmt.Errorf("encode CDI spec: %w", err)
	}
	e.data = append(e.data, '\n')
	if size := len(e.data); size > MaxSpecBytes {
		e.data = nil
		return e, fmt.Errorf("CDI spec of %d bytes, at most %d", size, MaxSpecBytes)
	}
	e.Made = made
	if foreign {
		e.own = g.ownSpec(ctx, vendor, devices)
	}
	return e, nil
}

// ownSpec is what this package's recipe makes of devices; nil: nothing.
func (g *Generator) ownSpec(ctx context.Context, vendor gpu.Vendor, devices []gpu.Device) *specs.Spec {
	made, err := g.own.Make(ctx, vendor, devices)
	if err != nil || made.Spec == nil || complete(made.Spec, vendor, devices) != nil {
		return nil
	}
	return made.Spec
}

// complete gives a spec its kind, the device of all cards, and the lowest version that
// has all it uses: engines refuse what is newer than they are.
func complete(s *specs.Spec, vendor gpu.Vendor, devices []gpu.Device) error {
	if err := whole(s); err != nil {
		return fmt.Errorf("CDI spec of %s: %w", vendor, err)
	}
	s.Kind = Kind(vendor)
	s.Devices = slices.DeleteFunc(s.Devices, func(d specs.Device) bool { return d.Name == All })
	if all := allOf(s, devices); all != nil {
		s.Devices = append(s.Devices, *all)
	}
	var err error
	if s.Version, err = specs.MinimumRequiredVersion(s); err != nil {
		return fmt.Errorf("CDI spec of %s: %w", vendor, err)
	}
	if err := validate(s); err != nil {
		return fmt.Errorf("CDI spec of %s: %w", vendor, err)
	}
	return nil
}

// allOf joins the edits of the whole cards; nil: there is none.
func allOf(s *specs.Spec, devices []gpu.Device) *specs.Device {
	var edits specs.ContainerEdits
	found := false
	for _, d := range devices {
		one := device(s, nameOf(s, d))
		if one == nil {
			continue
		}
		found = true
		edits = join(edits, one.ContainerEdits)
	}
	if !found {
		return nil
	}
	return &specs.Device{Name: All, ContainerEdits: edits}
}

// join appends edits, each device node once.
func join(a, b specs.ContainerEdits) specs.ContainerEdits {
	for _, n := range b.DeviceNodes {
		if !slices.ContainsFunc(a.DeviceNodes, func(have *specs.DeviceNode) bool { return have.Path == n.Path }) {
			a.DeviceNodes = append(a.DeviceNodes, n)
		}
	}
	for _, m := range b.Mounts {
		if !slices.ContainsFunc(a.Mounts, func(have *specs.Mount) bool { return have.ContainerPath == m.ContainerPath }) {
			a.Mounts = append(a.Mounts, m)
		}
	}
	a.Env = append(a.Env, b.Env...)
	a.NetDevices = append(a.NetDevices, b.NetDevices...)
	a.Hooks = append(a.Hooks, b.Hooks...)
	a.AdditionalGIDs = append(a.AdditionalGIDs, b.AdditionalGIDs...)
	if b.IntelRdt != nil {
		a.IntelRdt = b.IntelRdt
	}
	return a
}

func device(s *specs.Spec, name string) *specs.Device {
	if s == nil || name == "" {
		return nil
	}
	for i := range s.Devices {
		if s.Devices[i].Name == name {
			return &s.Devices[i]
		}
	}
	return nil
}

// nameOf is what a spec calls a card: its uuid, which stays the same when another card
// vanishes, or else its index; "" if the card is not in it.
func nameOf(s *specs.Spec, d gpu.Device) string {
	if device(s, d.UUID) != nil {
		return d.UUID
	}
	if d.Index != nil {
		if index := fmt.Sprint(*d.Index); device(s, index) != nil {
			return index
		}
	}
	return ""
}

// Kind is the CDI kind of a vendor's devices.
func Kind(v gpu.Vendor) string { return string(v) + ".heteroflow.io/gpu" }

// QualifiedName is the full name of a device.
func QualifiedName(v gpu.Vendor, name string) string { return Kind(v) + "=" + name }

// Type is the node's type: the vendor meant where none is named.
func (c *Catalog) Type() gpu.Vendor { return c.snapshot.Type }

// Specs are the files that Save would write, in the order of their names.
func (c *Catalog) Specs() []File {
	var files []File
	for _, v := range slices.Sorted(maps.Keys(c.vendors)) {
		if e := c.vendors[v]; e.data != nil {
			files = append(files, File{Path: e.file, Vendor: v, Spec: e.Spec, Data: e.data})
		}
	}
	return files
}

// Omitted lists what the specs leave out, by vendor.
func (c *Catalog) Omitted() map[gpu.Vendor][]Omission {
	omitted := map[gpu.Vendor][]Omission{}
	for v, e := range c.vendors {
		if len(e.Omitted) > 0 {
			omitted[v] = e.Omitted
		}
	}
	return omitted
}

// Absent lists the devices that cannot be given to a container.
func (c *Catalog) Absent() []Absence {
	var absent []Absence
	for _, v := range slices.Sorted(maps.Keys(c.vendors)) {
		absent = append(absent, c.vendors[v].Absent...)
	}
	return absent
}
