package protocol

import "slices"

// DeviceType is the detector that found a card, and with it the vendor.
type DeviceType string

// The device types, in the order in which the detectors are asked.
const (
	DeviceMUSA      DeviceType = "musa"
	DeviceHygon     DeviceType = "hygon"
	DeviceCambricon DeviceType = "cambricon"
	DeviceBiren     DeviceType = "biren"
	DeviceAscend    DeviceType = "ascend"
	DeviceKunlun    DeviceType = "kunlun"
	DeviceIluvatar  DeviceType = "iluvatar"
	DeviceNVIDIA    DeviceType = "nvidia"
	DeviceMetaX     DeviceType = "metax"
	DeviceEnflame   DeviceType = "enflame"
	DeviceVirtual   DeviceType = "virtual" // no card of a known vendor was found
)

// DeviceTypes lists the eleven device types in the order of detection.
func DeviceTypes() []DeviceType {
	return []DeviceType{
		DeviceMUSA, DeviceHygon, DeviceCambricon, DeviceBiren, DeviceAscend, DeviceKunlun,
		DeviceIluvatar, DeviceNVIDIA, DeviceMetaX, DeviceEnflame, DeviceVirtual,
	}
}

// Known reports whether this release knows the type.
func (t DeviceType) Known() bool { return slices.Contains(DeviceTypes(), t) }

// MIGMode is whether a card is set to be partitioned.
type MIGMode string

// The MIG modes; absent where a card has none.
const (
	MIGEnabled  MIGMode = "enabled"
	MIGDisabled MIGMode = "disabled"
)

// MIGModes lists the MIG modes this release knows.
func MIGModes() []MIGMode { return []MIGMode{MIGEnabled, MIGDisabled} }

// Known reports whether this release knows the mode.
func (m MIGMode) Known() bool { return slices.Contains(MIGModes(), m) }

// Device is one card of the inventory.
type Device struct {
	Index            int             `json:"index" doc:"Index on the node, from 0, as the vendor's tool counts."`
	UUID             string          `json:"uuid,omitempty" doc:"Vendor's identifier, the same over restarts."`
	Vendor           DeviceType      `json:"vendor" doc:"Vendor, in the words of type; what a task's devices[].vendor is compared with."`
	Type             DeviceType      `json:"type" doc:"Detector that found the card."`
	Model            string          `json:"model,omitempty" doc:"Product name as the vendor's tool gives it."`
	BusID            string          `json:"bus_id,omitempty" doc:"PCI address, domain:bus:device.function, lower case."`
	NUMANode         *int            `json:"numa_node,omitzero" doc:"NUMA node from sysfs; absent: not known."`
	MemoryTotalBytes *int64          `json:"memory_total_bytes,omitzero" doc:"Memory of the card in bytes."`
	DriverVersion    string          `json:"driver_version,omitempty" doc:"Version of the kernel driver."`
	FirmwareVersion  string          `json:"firmware_version,omitempty" doc:"Version of the card's firmware."`
	Serial           string          `json:"serial,omitempty" doc:"Serial number of the board."`
	MIGMode          MIGMode         `json:"mig_mode,omitempty" doc:"Whether the card is set to be partitioned; absent: it cannot be."`
	Instances        []SliceInstance `json:"instances,omitempty" doc:"Partitions that exist on the card."`
}

// DeviceHealth is a card's condition as the vendor's tool reports it.
type DeviceHealth string

// The conditions of a card.
const (
	DeviceOK      DeviceHealth = "ok"
	DeviceWarning DeviceHealth = "warning"
	DeviceFailed  DeviceHealth = "failed"
)

// DeviceHealths lists the conditions this release knows.
func DeviceHealths() []DeviceHealth { return []DeviceHealth{DeviceOK, DeviceWarning, DeviceFailed} }

// Known reports whether this release knows the condition.
func (h DeviceHealth) Known() bool { return slices.Contains(DeviceHealths(), h) }

// DeviceStats is what was measured of one card in one round. Whatever could
// not be measured is absent: 0 is a measured zero.
type DeviceStats struct {
	Vendor             DeviceType   `json:"vendor,omitempty" doc:"Vendor of the card; only on a node with cards of several vendors, where the index alone does not name one."`
	Index              int          `json:"index" doc:"Index of the card."`
	UUID               string       `json:"uuid,omitempty" doc:"Vendor's identifier of the card."`
	TemperatureCelsius *float64     `json:"temperature_celsius,omitzero" doc:"Core temperature in degrees Celsius."`
	UtilizationPercent *float64     `json:"utilization_percent,omitzero" doc:"Compute utilization, 0 to 100."`
	MemoryUsedBytes    *int64       `json:"memory_used_bytes,omitzero" doc:"Memory in use in bytes."`
	MemoryTotalBytes   *int64       `json:"memory_total_bytes,omitzero" doc:"Memory of the card in bytes."`
	PowerWatts         *float64     `json:"power_watts,omitzero" doc:"Power draw in watts."`
	PowerLimitWatts    *float64     `json:"power_limit_watts,omitzero" doc:"Power limit in watts."`
	Health             DeviceHealth `json:"health,omitempty" doc:"Condition of the card."`
	HealthMessage      string       `json:"health_message,omitempty" doc:"Why it is not ok."`
}

// CollectFailure says that one card, which could be named, could not be read
// in this round. Three rounds in a row make the server count it as lost.
type CollectFailure struct {
	Vendor  DeviceType `json:"vendor,omitempty" doc:"Vendor of the card; only on a node with cards of several vendors, where the index alone does not name one."`
	Index   *int       `json:"index,omitzero" doc:"Index of the card; absent: not known."`
	UUID    string     `json:"uuid,omitempty" doc:"Vendor's identifier of the card."`
	BusID   string     `json:"bus_id,omitempty" doc:"PCI address of the card."`
	Code    string     `json:"code" doc:"Short stable word for the kind of failure."`
	Message string     `json:"message,omitempty" doc:"What the vendor's tool said."`
}

// Capability says how a card can be shared now. A flag is true only when it
// was confirmed in this round: rather under- than over-reported.
type Capability struct {
	Vendor     DeviceType  `json:"vendor,omitempty" doc:"Vendor of the card; only on a node with cards of several vendors, where the index alone does not name one."`
	Index      int         `json:"index" doc:"Index of the card."`
	MIGCapable bool        `json:"mig_capable" doc:"MIG mode is confirmed to be enabled."`
	MPSCapable bool        `json:"mps_capable" doc:"The MPS daemon is confirmed to be alive."`
	SliceKinds []SliceKind `json:"slice_kinds,omitempty" doc:"Kinds of slice that can be made on the card."`
}

// Topology is how the cards of a node are connected. On a node with cards of
// several vendors it is about the cards of kind.
type Topology struct {
	Kind  string         `json:"kind,omitempty" doc:"Whose labels these are: the vendor's word."`
	Links []TopologyLink `json:"links,omitempty" doc:"One row a pair of cards."`
	NUMA  []TopologyNUMA `json:"numa,omitempty" doc:"One row a card whose place is known."`
	NICs  []TopologyNIC  `json:"nics,omitempty" doc:"One row a pair of a card and a network interface."`
}

// TopologyLink is the connection of two cards.
type TopologyLink struct {
	A    int    `json:"a" doc:"Index of one card."`
	B    int    `json:"b" doc:"Index of the other."`
	Type string `json:"type" doc:"Vendor's label: NV12, PIX, PXB, NODE, SYS, HCCS, and so on."`
}

// TopologyNUMA is where a card sits.
type TopologyNUMA struct {
	Index int    `json:"index" doc:"Index of the card."`
	Node  *int   `json:"node,omitzero" doc:"NUMA node; absent: only the CPUs are known."`
	CPUs  string `json:"cpus,omitempty" doc:"CPUs next to the card, in the kernel's list form (0-31,64-95)."`
}

// TopologyNIC is the way from a card to a network interface.
type TopologyNIC struct {
	Index int    `json:"index" doc:"Index of the card."`
	NIC   string `json:"nic" doc:"The interface as the vendor's tool names it: NIC0, mlx5_0."`
	Type  string `json:"type" doc:"Vendor's label, as in links."`
}
