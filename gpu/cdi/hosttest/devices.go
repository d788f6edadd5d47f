package hosttest

import "github.com/heteroflow/node-agent/gpu"

// Card is a device as a detector finds it, with a minor like its index.
func Card(v gpu.Vendor, index int, change func(*gpu.Device)) gpu.Device {
	d := gpu.Device{Vendor: v, Type: v, Index: new(index), Minor: new(index)}
	if change != nil {
		change(&d)
	}
	return d
}

// Devices are what the detectors of each host would find, by its name.
var Devices = map[string][]gpu.Device{
	"nvidia": {
		Card(gpu.NVIDIA, 0, func(d *gpu.Device) {
			d.Minor, d.UUID, d.MIGMode = new(1), "GPU-11111111-2222-3333-4444-555555555555", gpu.MIGEnabled
			d.Instances = []gpu.Instance{
				{GI: new(1), CI: new(0), UUID: "MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"},
				{GI: new(2), CI: new(0), UUID: "MIG-of-which-no-rights-are-listed"},
			}
		}),
		Card(gpu.NVIDIA, 1, func(d *gpu.Device) { d.Minor, d.UUID = new(0), "GPU-66666666-2222-3333-4444-555555555555" }),
		Card(gpu.NVIDIA, 2, func(d *gpu.Device) { d.UUID = "GPU-77777777-2222-3333-4444-555555555555" }),
	},
	"nvidia-container": {
		Card(gpu.NVIDIA, 0, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:01:00.0" }),
		Card(gpu.NVIDIA, 1, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:02:00.0" }),
		Card(gpu.NVIDIA, 2, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:03:00.0" }),
	},
	"nvidia-wsl": {Card(gpu.NVIDIA, 0, func(d *gpu.Device) { d.Minor, d.UUID = nil, "GPU-11111111-2222-3333-4444-555555555555" })},
	"nvidia-tegra": {Card(gpu.NVIDIA, 0, func(d *gpu.Device) {
		d.Minor, d.Model, d.UUID = nil, "Orin (nvgpu)", "54d0709b-558d-5a59-9c65-0c5fc14a21a4"
	})},
	"ascend":     {Card(gpu.Ascend, 0, nil), Card(gpu.Ascend, 1, func(d *gpu.Device) { d.Minor = new(5) })},
	"ascend-950": {Card(gpu.Ascend, 0, nil)},
	"hygon": {
		Card(gpu.Hygon, 0, func(d *gpu.Device) { d.BusID, d.UUID = "0000:09:00.0", "T6A123" }),
		Card(gpu.Hygon, 1, func(d *gpu.Device) { d.BusID = "0000:0a:00.0" }),
	},
	"cambricon": {Card(gpu.Cambricon, 0, nil), Card(gpu.Cambricon, 1, nil)},
	"kunlun": {
		Card(gpu.Kunlun, 0, func(d *gpu.Device) { d.UUID = "same" }),
		Card(gpu.Kunlun, 1, func(d *gpu.Device) { d.UUID, d.Minor = "same", nil }),
	},
	"musa":     {Card(gpu.MUSA, 0, func(d *gpu.Device) { d.BusID, d.UUID = "0000:01:00.0", "not a name for CDI" })},
	"iluvatar": {Card(gpu.Iluvatar, 0, func(d *gpu.Device) { d.Minor = new(3) })},
	"metax":    {Card(gpu.MetaX, 0, func(d *gpu.Device) { d.BusID = "0000:0f:00.0" })},
	"enflame": {
		Card(gpu.Enflame, 0, func(d *gpu.Device) { d.Minor, d.UUID, d.BusID = nil, "T6R231060602", "0000:2c:00.0" }),
		Card(gpu.Enflame, 1, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:2d:00.0" }),
		Card(gpu.Enflame, 2, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:2e:00.0" }),
	},
	"biren": {
		Card(gpu.Biren, 0, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:01:00.0" }),
		Card(gpu.Biren, 1, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:02:00.0" }),
		Card(gpu.Biren, 2, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:03:00.0" }),
	},
	"biren-1.11": {Card(gpu.Biren, 0, func(d *gpu.Device) { d.Minor, d.BusID = nil, "0000:01:00.0" })},
	"virtual":    {Card(gpu.Virtual, 0, func(d *gpu.Device) { d.UUID = "virtual-0" })},
}
