package docker

import (
	"strconv"

	"github.com/moby/moby/api/types/container"

	"github.com/heteroflow/node-agent/runtime"
)

// withDevices adds the spec's devices. The daemon resolves the names of CDI, and finds out
// whether it can only when it starts the container.
func withDevices(r container.Resources, spec runtime.Spec) container.Resources {
	if len(spec.CDIDevices) > 0 {
		r.DeviceRequests = []container.DeviceRequest{{Driver: "cdi", DeviceIDs: spec.CDIDevices}}
	}
	for _, d := range spec.Devices {
		r.Devices = append(r.Devices, container.DeviceMapping{
			PathOnHost: d.HostPath, PathInContainer: d.Path, CgroupPermissions: d.Permissions,
		})
	}
	return r
}

func groups(ids []uint32) []string {
	var names []string
	for _, id := range ids {
		names = append(names, strconv.FormatUint(uint64(id), 10))
	}
	return names
}
