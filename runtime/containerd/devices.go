package containerd

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	cdispecs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/runtime"
)

// inject puts the devices into the OCI spec, after all else: what a CDI spec says of
// environment and mounts goes over the task's own. The specs are read now, as they are,
// and by nobody else: this process keeps no watch on them.
func inject(oci *specs.Spec, spec runtime.Spec, dirs []string) error {
	for _, gid := range spec.Groups {
		if have := &oci.Process.User.AdditionalGids; !slices.Contains(*have, gid) {
			*have = append(*have, gid)
		}
	}
	if err := injectNodes(oci, spec.Devices); err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrDeviceUnavailable, err)
	}
	if len(spec.CDIDevices) == 0 {
		return nil
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(dirs...), cdi.WithAutoRefresh(false))
	if err != nil {
		return fmt.Errorf("%w: read CDI specs: %w", runtime.ErrDeviceUnavailable, err)
	}
	if _, err := cache.InjectDevices(oci, spec.CDIDevices...); err != nil {
		// A spec that is broken may be the one that should have had the device.
		return fmt.Errorf("%w: %w", runtime.ErrDeviceUnavailable, errors.Join(err, unreadable(cache)))
	}
	return nil
}

func unreadable(cache *cdi.Cache) error {
	all := cache.GetErrors()
	var errs []error
	for _, file := range slices.Sorted(maps.Keys(all)) {
		errs = append(errs, fmt.Errorf("CDI spec %s: %w", file, errors.Join(all[file]...)))
	}
	return errors.Join(errs...)
}

func injectNodes(oci *specs.Spec, devices []runtime.Device) error {
	var edits cdispecs.ContainerEdits
	for _, d := range devices {
		edits.DeviceNodes = append(edits.DeviceNodes, &cdispecs.DeviceNode{
			Path: d.Path, HostPath: d.HostPath, Permissions: d.Permissions,
		})
	}
	return (&cdi.ContainerEdits{ContainerEdits: &edits}).Apply(oci)
}
