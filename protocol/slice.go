package protocol

import "slices"

// SliceKind is a way to cut a card in parts.
type SliceKind string

// The kinds of slice.
const (
	SliceNVIDIAMIG SliceKind = "nvidia-mig"
	SliceNVIDIAMPS SliceKind = "nvidia-mps"
	SliceHygonHAMi SliceKind = "hygon-hami"
)

// SliceKinds lists the kinds this release knows.
func SliceKinds() []SliceKind { return []SliceKind{SliceNVIDIAMIG, SliceNVIDIAMPS, SliceHygonHAMi} }

// Known reports whether this release knows the kind.
func (k SliceKind) Known() bool { return slices.Contains(SliceKinds(), k) }

// TaskSlice is one part of a card given to a task. Which fields count depends
// on the kind.
type TaskSlice struct {
	Kind             SliceKind `json:"kind" doc:"Kind of slice."`
	UUID             string    `json:"uuid,omitempty" doc:"nvidia-mig: identifier of the instance, starts with MIG-."`
	Index            *int      `json:"index,omitzero" doc:"nvidia-mps and hygon-hami: index of the card."`
	VDevID           *int      `json:"vdev_id,omitzero" doc:"hygon-hami: number of the virtual device."`
	ThreadPercentage *int      `json:"thread_percentage,omitzero" doc:"nvidia-mps: share of the card's threads, 1 to 100; absent: no limit."`
	MemoryLimitBytes *int64    `json:"memory_limit_bytes,omitzero" doc:"nvidia-mps: limit of the card's memory in bytes; absent: no limit."`
}

// SliceAction is what a slice request asks for.
type SliceAction string

// The actions of a slice request.
const (
	SliceCreate  SliceAction = "create"
	SliceDestroy SliceAction = "destroy"
)

// SliceActions lists the actions this release knows.
func SliceActions() []SliceAction { return []SliceAction{SliceCreate, SliceDestroy} }

// Known reports whether this release knows the action.
func (a SliceAction) Known() bool { return slices.Contains(SliceActions(), a) }

// SliceRequest cuts a card or removes parts of it. It is destructive: the
// agent checks every parameter again and never runs one twice.
type SliceRequest struct {
	Request
	Vendor    SliceKind       `json:"vendor" doc:"nvidia-mig or hygon-hami."`
	Action    SliceAction     `json:"action" doc:"What to do."`
	GPUIndex  int             `json:"gpu_index" doc:"Index of the card."`
	GPUUUID   string          `json:"gpu_uuid,omitempty" doc:"Identifier of the card; must match the index."`
	Profiles  []string        `json:"profiles,omitempty" doc:"create: one profile a slice, each from the card's own list (1g.10gb)."`
	Instances []SliceInstance `json:"instances,omitempty" doc:"destroy: what to remove, named by its identifiers."`
}

// SliceInstance is one part of a card. MIG fills the first group of fields,
// HAMi the second.
type SliceInstance struct {
	GIID      *int       `json:"gi_id,omitzero" doc:"MIG: GPU instance."`
	CIID      *int       `json:"ci_id,omitzero" doc:"MIG: compute instance within it."`
	UUID      string     `json:"uuid,omitempty" doc:"MIG: identifier, starts with MIG-."`
	Profile   string     `json:"profile,omitempty" doc:"Profile it was made from."`
	Placement *Placement `json:"placement,omitzero" doc:"MIG: where on the card it lies."`

	VDevID      *int   `json:"vdev_id,omitzero" doc:"HAMi: number of the virtual device."`
	Cores       *int   `json:"cores,omitzero" doc:"HAMi: compute units."`
	MemoryBytes *int64 `json:"memory_bytes,omitzero" doc:"Memory in bytes."`
	ConfigPath  string `json:"config_path,omitempty" doc:"HAMi: its configuration file on the node."`
}

// Placement is where on a card a MIG instance lies, in memory slices.
type Placement struct {
	Start int `json:"start" doc:"First slice."`
	Size  int `json:"size" doc:"Number of slices."`
}

// SliceResult is what a slice request did, also when it failed half way.
type SliceResult struct {
	Created   []SliceInstance `json:"created,omitempty" doc:"What was made and exists now."`
	Destroyed []SliceInstance `json:"destroyed,omitempty" doc:"What was removed."`
	Remaining []SliceInstance `json:"remaining,omitzero" doc:"What the card holds now; absent: could not be read; []: nothing."`
}
