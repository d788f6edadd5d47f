package cards

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/heteroflow/node-agent/agent/lease"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// Resolve says what the cards of a valid task come to in its container, on a runtime that
// says info of itself. An error is a *taskcontainer.RefusedError, or ctx's.
//
// A task without cards gets an environment by which no vendor's runtime gives it any,
// whatever its image says.
func (c *Cards) Resolve(ctx context.Context, task protocol.Task, info runtime.Info) (taskcontainer.Devices, error) {
	if len(task.Devices)+len(task.Slices) == 0 {
		return taskcontainer.Devices{Env: cdi.Visibility(nil)}, nil
	}
	var devices taskcontainer.Devices
	err := c.withCatalog(ctx, func(catalog *cdi.Catalog) (err error) {
		devices, err = c.resolve(catalog, task, info)
		return err
	})
	switch {
	case err == nil:
		return devices, nil
	case ctx.Err() != nil:
		return taskcontainer.Devices{}, context.Cause(ctx)
	default:
		return taskcontainer.Devices{}, &taskcontainer.RefusedError{Reason: protocol.ReasonGPUUnavailable, Err: err}
	}
}

func (c *Cards) resolve(catalog *cdi.Catalog, task protocol.Task, info runtime.Info) (taskcontainer.Devices, error) {
	var out taskcontainer.Devices
	selected, err := c.selected(catalog, task)
	if err != nil {
		return out, err
	}
	given := map[gpu.Vendor]int{}
	for _, s := range selected {
		given[s.Vendor]++
		out.Holds = append(out.Holds, lease.Hold{Card: cardID(s.Device), Slice: s.Instance})
	}
	out.Env = cdi.Visibility(given)
	if info.CDI && sees(info.CDIDirs, c.Generator.Dir()) {
		err := c.byName(&out, catalog, selected)
		return out, err
	}
	edits, err := catalog.Translate(selected)
	if err != nil {
		return out, err
	}
	spellOut(&out, edits)
	return out, nil
}

// selected finds all that the task asks for.
func (c *Cards) selected(catalog *cdi.Catalog, task protocol.Task) ([]cdi.Selection, error) {
	var all []cdi.Selection
	add := func(what string, s cdi.Selection, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		for _, have := range all {
			if have.Name == s.Name {
				return fmt.Errorf("%s: %s is asked for twice", what, s.Name)
			}
		}
		all = append(all, s)
		return nil
	}
	for i, d := range task.Devices {
		vendor := gpu.Vendor(d.Vendor)
		if vendor == "" {
			vendor = catalog.Type()
		}
		s, err := catalog.Select(vendor, d.Index, d.UUID)
		if err := add(fmt.Sprintf("devices[%d]", i), s, err); err != nil {
			return nil, err
		}
	}
	for i, slice := range task.Slices {
		what := fmt.Sprintf("slices[%d]", i)
		if slice.Kind != protocol.SliceNVIDIAMIG {
			return nil, fmt.Errorf("%s: this release gives tasks no slices of kind %s", what, slice.Kind)
		}
		s, err := catalog.SelectInstance(slice.UUID)
		if err := add(what, s, err); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// byName has the runtime take the devices from the specs, which it finds up to date.
func (c *Cards) byName(out *taskcontainer.Devices, catalog *cdi.Catalog, selected []cdi.Selection) error {
	for _, s := range selected {
		out.CDI = append(out.CDI, s.Name)
	}
	nodes, errNodes := catalog.Nodes(selected)
	expect(out, nodes)
	var errGroups error
	out.Groups, errGroups = catalog.Groups(selected)
	return errors.Join(errNodes, errGroups, c.save(catalog))
}

func expect(out *taskcontainer.Devices, nodes []cdi.Node) {
	for _, n := range nodes {
		out.Expect = append(out.Expect, taskcontainer.Node{Path: n.Path, Type: n.Type, Major: uint32(n.Major), Minor: uint32(n.Minor)})
	}
}

// spellOut tells the runtime each thing that the devices change.
func spellOut(out *taskcontainer.Devices, edits cdi.Edits) {
	expect(out, edits.Nodes)
	out.Groups = edits.Groups
	for _, n := range edits.Nodes {
		out.Nodes = append(out.Nodes, runtime.Device{HostPath: n.HostPath, Path: n.Path, Permissions: n.Permissions})
	}
	for _, m := range edits.Mounts {
		out.Mounts = append(out.Mounts, runtime.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	for _, kv := range edits.Env {
		out.Env = overlay(out.Env, kv)
	}
}

// overlay sets a variable, in the place it has.
func overlay(env []string, kv string) []string {
	name, _, _ := strings.Cut(kv, "=")
	for i := range env {
		if strings.HasPrefix(env[i], name+"=") {
			env[i] = kv
			return env
		}
	}
	return append(env, kv)
}
