package spec

import (
	"fmt"

	"tags.cncf.io/container-device-interface/pkg/parser"
	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
)

// allCards is the name of the device that is every whole card of a vendor.
const allCards = "all"

// Kind is the CDI kind of a vendor's devices.
func Kind(v gpu.Vendor) string { return string(v) + ".heteroflow.io/gpu" }

// QualifiedName is the full name of a device, as engines take it.
func QualifiedName(v gpu.Vendor, name string) string { return Kind(v) + "=" + name }

// CheckName tells what CDI has against the name of a device.
func CheckName(name string) error { return parser.ValidateDeviceName(name) }

// Device finds a device by its name in a spec; nil: there is none, or no spec.
func Device(s *specs.Spec, name string) *specs.Device {
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

// NameOf is what a spec calls a card: its uuid, which stays the same when another card
// vanishes, or else its index; "" if the card is not in it.
func NameOf(s *specs.Spec, d gpu.Device) string {
	if Device(s, d.UUID) != nil {
		return d.UUID
	}
	if d.Index != nil {
		if index := fmt.Sprint(*d.Index); Device(s, index) != nil {
			return index
		}
	}
	return ""
}
