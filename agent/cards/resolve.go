package cards

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/lease"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi"
	"github.com/heteroflow/node-agent/gpu/cdi/edits"
	"github.com/heteroflow/node-agent/gpu/visibility"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// looks is how often a card is looked at before a task is refused for it.
const looks = 3

// Resolve says what the cards of a valid task come to in its container, on a runtime that
// says info of itself. An error is a *taskcontainer.RefusedError, or ctx's.
//
// A card that cannot be given is looked at again, twice, before the task is refused for it:
// one bad answer of a vendor's tool is not yet a fact, and an instance may have been made
// since the last look.
//
// A task without cards gets an environment by which no vendor's runtime gives it any,
// whatever its image says.
func (c *Cards) Resolve(ctx context.Context, task protocol.Task, info runtime.Info) (taskcontainer.Devices, error) {
	if len(task.Devices)+len(task.Slices) == 0 {
		return taskcontainer.Devices{Env: visibility.Env(nil)}, nil
	}
	var devices taskcontainer.Devices
	var err error
	for look := 1; ; look++ {
		err = c.withCatalog(ctx, func(catalog *cdi.Catalog) (err error) {
			devices, err = c.resolve(catalog, task, info)
			return err
		})
		unavailable, ok := errors.AsType[*cdi.UnavailableError](err)
		if !ok || look == looks {
			break
		}
		c.Log.Warn("card cannot be given to the task; looking again", zap.String("task_id", task.ID),
			zap.Intp("gpu_index", unavailable.Index), zap.String("gpu_uuid", unavailable.UUID), zap.String("why", unavailable.Reason))
		if err := c.Inventory.Renew(ctx); err != nil {
			return taskcontainer.Devices{}, err
		}
	}
	switch {
	case err == nil:
		return devices, c.Ready(ctx, devices.Holds)
	case ctx.Err() != nil:
		return taskcontainer.Devices{}, context.Cause(ctx)
	default:
		return taskcontainer.Devices{}, &taskcontainer.RefusedError{Reason: protocol.ReasonGPUUnavailable, Err: err}
	}
}

func (c *Cards) resolve(catalog *cdi.Catalog, task protocol.Task, info runtime.Info) (taskcontainer.Devices, error) {
	var out taskcontainer.Devices
	chosen, err := c.chosen(catalog, task)
	if err != nil {
		return out, err
	}
	given := map[gpu.Vendor]int{}
	selected := make([]cdi.Selection, len(chosen))
	for i, s := range chosen {
		selected[i] = s.Selection
		given[s.Vendor]++
		out.Holds = append(out.Holds, s.hold())
	}
	out.Env = visibility.Env(given)
	if info.CDI && sees(info.CDIDirs, c.Generator.Dir) {
		err = c.byName(&out, catalog, selected)
	} else {
		var plain edits.Plain
		if plain, err = catalog.Translate(selected); err == nil {
			spellOut(&out, plain)
		}
	}
	if err != nil {
		return out, err
	}
	return out, throughMPS(&out, chosen)
}

// choice is a device chosen for a task.
type choice struct {
	cdi.Selection

	share *protocol.TaskSlice // of a card that MPS shares out; nil: the device is the task's alone
}

// hold is what nobody else may have meanwhile.
func (c choice) hold() lease.Hold {
	if c.share != nil {
		return lease.Hold{Card: cardID(c.Device), Slice: "mps", Shared: true}
	}
	return lease.Hold{Card: cardID(c.Device), Slice: c.Instance}
}

// chosen finds all that the task asks for.
func (c *Cards) chosen(catalog *cdi.Catalog, task protocol.Task) ([]choice, error) {
	var all []choice
	add := func(what string, s choice, err error) error {
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
		if err := add(fmt.Sprintf("devices[%d]", i), choice{Selection: s}, err); err != nil {
			return nil, err
		}
	}
	for i, slice := range task.Slices {
		s, err := chooseSlice(catalog, slice)
		if err := add(fmt.Sprintf("slices[%d]", i), s, err); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func chooseSlice(catalog *cdi.Catalog, slice protocol.TaskSlice) (choice, error) {
	switch slice.Kind {
	case protocol.SliceNVIDIAMIG:
		s, err := catalog.SelectInstance(slice.UUID)
		return choice{Selection: s}, err
	case protocol.SliceNVIDIAMPS:
		s, err := catalog.Select(gpu.NVIDIA, slice.Index, slice.UUID)
		if err == nil && s.Device.MIGMode == gpu.MIGEnabled {
			err = fmt.Errorf("card %s is in MIG mode: the host's MPS daemon shares whole cards", s.Name)
		}
		return choice{Selection: s, share: &slice}, err
	default:
		return choice{}, fmt.Errorf("this release gives tasks no slices of kind %s", slice.Kind)
	}
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

func expect(out *taskcontainer.Devices, nodes []edits.Node) {
	for _, n := range nodes {
		out.Expect = append(out.Expect, taskcontainer.Node{Path: n.Path, Type: n.Type, Major: uint32(n.Major), Minor: uint32(n.Minor)})
	}
}

// spellOut tells the runtime each thing that the devices change.
func spellOut(out *taskcontainer.Devices, plain edits.Plain) {
	expect(out, plain.Nodes)
	out.Groups = plain.Groups
	for _, n := range plain.Nodes {
		out.Nodes = append(out.Nodes, runtime.Device{HostPath: n.HostPath, Path: n.Path, Permissions: n.Permissions})
	}
	for _, m := range plain.Mounts {
		out.Mounts = append(out.Mounts, runtime.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	for _, kv := range plain.Env {
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
