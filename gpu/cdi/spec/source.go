package spec

import (
	"context"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
)

// Source makes the spec of one vendor's devices. The recipes of package recipe are one;
// another is a vendor's own library, which knows more than a table can.
type Source interface {
	Make(ctx context.Context, vendor gpu.Vendor, devices []gpu.Device) (Made, error)
}

// Made is what a Source has made of a vendor's devices.
type Made struct {
	// Spec names each device by its index and, where it has one, its uuid, and each MIG
	// instance by its uuid. Kind and version are filled in later, by Complete. Nil: no
	// device can be given to a container.
	Spec *specs.Spec
	// Absent are the devices that are not in Spec, and why.
	Absent []Absence
	// Omitted is what a container might have used and will not find.
	Omitted []Omission
}

// Absence is a device that no container can be given.
type Absence struct {
	Device gpu.Device
	Reason string
}

// Omission is something of the host that a spec leaves out.
type Omission struct {
	Path   string
	Reason string
}
