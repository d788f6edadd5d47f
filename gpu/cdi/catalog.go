package cdi

import (
	"maps"
	"slices"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/cdi/spec"
	"github.com/heteroflow/node-agent/gpu/cdi/specfile"
)

// Catalog is a node's devices as container engines know them, at one moment.
type Catalog struct {
	dir      string
	host     hostfs.FS
	snapshot gpu.Snapshot
	vendors  map[gpu.Vendor]*entry
}

// entry is one vendor's part.
type entry struct {
	spec.Made
	data []byte      // of the spec's file; nil: there is none
	own  *specs.Spec // by the recipe, where Spec is somebody else's; nil: none
	// failed: the spec could not be made, which says nothing of an earlier one.
	failed bool
}

// full is the spec for engines that know CDI.
func (e *entry) full() *specs.Spec { return e.Spec }

// plain is the one with nothing that only they know, where there are two.
func (e *entry) plain() *specs.Spec {
	if e.own != nil {
		return e.own
	}
	return e.Spec
}

// Type is the node's type: the vendor meant where none is named.
func (c *Catalog) Type() gpu.Vendor { return c.snapshot.Type }

// Files are those that Save writes, in the order of their vendors.
func (c *Catalog) Files() []specfile.File {
	var files []specfile.File
	for _, v := range slices.Sorted(maps.Keys(c.vendors)) {
		if e := c.vendors[v]; e.data != nil {
			files = append(files, specfile.File{Path: specfile.Path(c.dir, v), Vendor: v, Spec: e.Spec, Data: e.data})
		}
	}
	return files
}

// Save makes the files of the directory agree with the catalog, and tells which changed.
// The file of a vendor that has no device any more goes, except where the vendor's tool
// fails, or the making of the spec: that says nothing of its cards.
func (c *Catalog) Save() (changed []string, err error) {
	return specfile.Save(c.dir, c.Files(), func(v gpu.Vendor) bool {
		e := c.vendors[v]
		return e != nil && e.failed || c.collectorError(v) != nil
	})
}

// collectorError is why the vendor's tool fails; nil: it does not.
func (c *Catalog) collectorError(v gpu.Vendor) error {
	for _, status := range c.snapshot.Vendors {
		if status.Vendor == v && status.Error != nil {
			return status.Error
		}
	}
	return nil
}

// Omitted lists what the specs leave out, by vendor.
func (c *Catalog) Omitted() map[gpu.Vendor][]spec.Omission {
	omitted := map[gpu.Vendor][]spec.Omission{}
	for v, e := range c.vendors {
		if len(e.Omitted) > 0 {
			omitted[v] = e.Omitted
		}
	}
	return omitted
}

// Absent lists the devices that cannot be given to a container.
func (c *Catalog) Absent() []spec.Absence {
	var absent []spec.Absence
	for _, v := range slices.Sorted(maps.Keys(c.vendors)) {
		absent = append(absent, c.vendors[v].Absent...)
	}
	return absent
}
