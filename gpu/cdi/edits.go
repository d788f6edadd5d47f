package cdi

import (
	"errors"
	"fmt"
	"strings"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/edits"
	"github.com/heteroflow/node-agent/gpu/cdi/spec"
	"github.com/heteroflow/node-agent/gpu/cdi/specfile"
)

// Translate spells out what the selected devices change in a container. An
// *edits.UntranslatableError when that is more than edits.Plain can say. Where a vendor's
// own spec says more, as one with hooks does, the recipe for the same devices serves instead.
func (c *Catalog) Translate(selected []Selection) (edits.Plain, error) {
	plain, err := c.translate(selected, (*entry).full)
	if _, untranslatable := errors.AsType[*edits.UntranslatableError](err); !untranslatable {
		return plain, err
	}
	if plain, errPlain := c.translate(selected, (*entry).plain); errPlain == nil {
		return plain, nil
	}
	return edits.Plain{}, err
}

func (c *Catalog) translate(selected []Selection, of func(*entry) *specs.Spec) (edits.Plain, error) {
	all, err := c.edits(selected, of)
	if err != nil {
		return edits.Plain{}, err
	}
	var names []string
	for _, s := range selected {
		names = append(names, s.Name)
	}
	return edits.Translate(c.host, strings.Join(names, ", "), all)
}

// Groups are those that a container's process must be in, whoever it runs as, to use the
// selected devices.
func (c *Catalog) Groups(selected []Selection) ([]uint32, error) {
	all, err := c.edits(selected, (*entry).full)
	return edits.Groups(all), err
}

// Nodes are the device nodes that a container with the selected devices must have.
func (c *Catalog) Nodes(selected []Selection) ([]edits.Node, error) {
	all, err := c.edits(selected, (*entry).full)
	if err != nil {
		return nil, err
	}
	return edits.Nodes(c.host, all)
}

// edits are all that the selected devices change in a container: those of each device, and
// those of each spec once.
func (c *Catalog) edits(selected []Selection, of func(*entry) *specs.Spec) (specs.ContainerEdits, error) {
	var all specs.ContainerEdits
	seen := map[gpu.Vendor]bool{}
	for _, s := range selected {
		e := c.vendors[s.Vendor]
		if e == nil || of(e) == nil {
			return all, fmt.Errorf("CDI device %s: its spec is not in this catalog", s.Name)
		}
		one := spec.Device(of(e), strings.TrimPrefix(s.Name, spec.Kind(s.Vendor)+"="))
		if one == nil {
			return all, fmt.Errorf("CDI device %s: not in spec %s", s.Name, specfile.Path(c.dir, s.Vendor))
		}
		if !seen[s.Vendor] {
			seen[s.Vendor] = true
			all = spec.Join(all, of(e).ContainerEdits)
		}
		all = spec.Join(all, one.ContainerEdits)
	}
	return all, nil
}
