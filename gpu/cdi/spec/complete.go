package spec

import (
	"fmt"
	"slices"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
)

// Complete gives a spec of a vendor's devices its kind, the device of all cards, and the
// lowest version that has all it uses: engines refuse what is newer than they are. An error
// when the spec then breaks a rule.
func Complete(s *specs.Spec, vendor gpu.Vendor, devices []gpu.Device) error {
	if err := whole(s); err != nil {
		return fmt.Errorf("CDI spec of %s: %w", vendor, err)
	}
	s.Kind = Kind(vendor)
	s.Devices = slices.DeleteFunc(s.Devices, func(d specs.Device) bool { return d.Name == allCards })
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
		one := Device(s, NameOf(s, d))
		if one == nil {
			continue
		}
		found = true
		edits = Join(edits, one.ContainerEdits)
	}
	if !found {
		return nil
	}
	return &specs.Device{Name: allCards, ContainerEdits: edits}
}

// Join appends edits, each device node once.
func Join(a, b specs.ContainerEdits) specs.ContainerEdits {
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
