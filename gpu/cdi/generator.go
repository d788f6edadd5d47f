package cdi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/cdi/recipe"
	"github.com/heteroflow/node-agent/gpu/cdi/spec"
)

// Generator makes catalogs. It is safe for concurrent use if its sources are.
type Generator struct {
	Dir  string    // where the spec files go
	Host hostfs.FS // whose cards they are
	// Sources are asked instead of package recipe.
	Sources map[gpu.Vendor]spec.Source
}

// Generate makes the specs of all vendors whose devices are in the snapshot. It writes
// nothing. A vendor whose spec cannot be made is in the error; the others are in the
// catalog all the same.
func (g *Generator) Generate(ctx context.Context, s gpu.Snapshot) (*Catalog, error) {
	c := &Catalog{dir: g.Dir, host: g.Host, snapshot: s, vendors: map[gpu.Vendor]*entry{}}
	byVendor := map[gpu.Vendor][]gpu.Device{}
	for _, d := range s.Devices {
		byVendor[d.Vendor] = append(byVendor[d.Vendor], d)
	}
	var errs []error
	for _, vendor := range slices.Sorted(maps.Keys(byVendor)) {
		e, err := g.entry(ctx, vendor, byVendor[vendor])
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", vendor, err))
			e = &entry{failed: true}
			for _, d := range byVendor[vendor] {
				e.Absent = append(e.Absent, spec.Absence{Device: d, Reason: err.Error()})
			}
		}
		c.vendors[vendor] = e
	}
	return c, errors.Join(errs...)
}

// entry makes one vendor's part.
func (g *Generator) entry(ctx context.Context, vendor gpu.Vendor, devices []gpu.Device) (*entry, error) {
	source, foreign := g.Sources[vendor]
	if !foreign {
		source = g.recipes()
	}
	made, err := source.Make(ctx, vendor, devices)
	if err != nil {
		return nil, err
	}
	e := &entry{Made: made}
	if made.Spec == nil {
		return e, nil
	}
	if err := spec.Complete(made.Spec, vendor, devices); err != nil {
		return nil, err
	}
	if e.data, err = spec.Encode(made.Spec); err != nil {
		return nil, err
	}
	if foreign {
		e.own = g.ownSpec(ctx, vendor, devices)
	}
	return e, nil
}

func (g *Generator) recipes() spec.Source { return recipe.Source{Host: g.Host} }

// ownSpec is what the vendor's recipe makes of devices; nil: nothing.
func (g *Generator) ownSpec(ctx context.Context, vendor gpu.Vendor, devices []gpu.Device) *specs.Spec {
	made, err := g.recipes().Make(ctx, vendor, devices)
	if err != nil || made.Spec == nil || spec.Complete(made.Spec, vendor, devices) != nil {
		return nil
	}
	return made.Spec
}
