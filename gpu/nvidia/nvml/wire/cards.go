package wire

import "time"

// CardsParams asks for the cards.
type CardsParams struct {
	// Full adds what does not change between rounds, and the topology.
	Full bool `json:"full,omitempty"`
}

// Cards is one round over all cards.
type Cards struct {
	Library string    `json:"library"` // the file that libnvidia-ml was loaded from
	NVML    string    `json:"nvml,omitempty"`
	Driver  string    `json:"driver,omitempty"`
	Cards   []Card    `json:"cards"`
	Links   []Link    `json:"links,omitempty"` // only in full
	Xids    []XID     `json:"xids,omitempty"`  // since the round before
	Watch   XIDStatus `json:"xid_watch"`
}

// Card is what NVML says of one card. A pointer is nil, and a text empty, when
// the card does not support the call, the library does not have it, or it
// failed; which failed is in Failed.
type Card struct {
	Index int `json:"index"`
	// Handle is not Success when the card could not be opened: all but Index, and
	// sometimes BusID, is unknown then.
	Handle Return            `json:"handle,omitempty"`
	Reason string            `json:"reason,omitempty"` // Handle in NVML's words
	Failed map[string]Return `json:"failed,omitempty"` // by one of the Field names

	UUID   string `json:"uuid,omitempty"`
	Name   string `json:"name,omitempty"`
	BusID  string `json:"bus_id,omitempty"` // as NVML writes it
	Minor  *int   `json:"minor,omitempty"`
	Serial string `json:"serial,omitempty"`
	VBIOS  string `json:"vbios,omitempty"`

	MemoryTotal *uint64 `json:"memory_total_bytes,omitempty"`
	MemoryUsed  *uint64 `json:"memory_used_bytes,omitempty"`
	Temperature *uint32 `json:"temperature_celsius,omitempty"`
	Utilization *uint32 `json:"utilization_percent,omitempty"`
	Power       *uint32 `json:"power_milliwatts,omitempty"`
	PowerLimit  *uint32 `json:"power_limit_milliwatts,omitempty"` // the enforced one
	Energy      *uint64 `json:"energy_millijoules,omitempty"`     // since the driver was loaded; for people, who ask with -once

	ECCErrors      *uint64 `json:"ecc_uncorrected_errors,omitempty"` // since the driver was loaded
	RowsPending    *bool   `json:"row_remapping_pending,omitempty"`
	RowsFailed     *bool   `json:"row_remapping_failed,omitempty"`
	PagesPending   *bool   `json:"page_retirement_pending,omitempty"`
	ClockReasons   *uint64 `json:"clocks_event_reasons,omitempty"` // nvmlClocksEventReason bits
	RecoveryAction *uint32 `json:"recovery_action,omitempty"`      // nvmlDeviceGpuRecoveryAction, drivers from 570 on
	ResetStatus    *uint32 `json:"reset_status,omitempty"`         // 1: a reset is required; drivers from 535 on

	MIGMode    *int       `json:"mig_mode,omitempty"` // 1: enabled now
	MIGPending *int       `json:"mig_mode_pending,omitempty"`
	Instances  []Instance `json:"instances,omitempty"` // only in full

	CPUs string `json:"cpus,omitempty"`      // near the card, as a CPU list; only in full
	Node *int   `json:"numa_node,omitempty"` // whose memory is near; only in full
}

// The names of calls in Card.Failed that the agent's side looks at. Others are
// for people.
const (
	FieldName        = "name"
	FieldTemperature = "temperature"
	FieldPower       = "power"
	FieldUtilization = "utilization"
)

// Instance is one MIG device.
type Instance struct {
	GI   *int   `json:"gi,omitempty"`
	CI   *int   `json:"ci,omitempty"`
	UUID string `json:"uuid,omitempty"`
	Name string `json:"name,omitempty"` // the card's with the profile: "NVIDIA H100 PCIe MIG 1g.10gb"
}

// Link is how two cards are connected, in the words of nvidia-smi's matrix.
type Link struct {
	A    int    `json:"a"`
	B    int    `json:"b"`
	Type string `json:"type"`
}

// XID is one of the driver's critical errors.
type XID struct {
	Code  int       `json:"code"`
	BusID string    `json:"bus_id,omitempty"` // "" when the card cannot be told
	GI    *uint32   `json:"gi,omitempty"`     // of the MIG device; nil: the whole card
	CI    *uint32   `json:"ci,omitempty"`
	At    time.Time `json:"at"`
}

// XIDStatus says how well Xids are seen.
type XIDStatus struct {
	Watched int    `json:"watched"`           // cards whose Xids are reported
	Dropped int    `json:"dropped,omitempty"` // older ones that nobody fetched in time, since the round before
	Error   string `json:"error,omitempty"`   // why they are not seen at present
}
