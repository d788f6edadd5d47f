package gpu

import (
	"encoding/json"
	"slices"
)

// Parsed is what one output of one command of a vendor's tool says: the JSON of
// "gpu parse". A detector makes its Report of one or more of them.
type Parsed struct {
	GPUs           []Device        `json:"gpus"`      // in order of appearance
	Stats          []Stats         `json:"gpu_stats"` // at most one row a device
	Failures       []Failure       `json:"gpu_collect_failures"`
	CollectorError *CollectorError `json:"gpu_collector_error,omitempty"`
	Topology       *Topology       `json:"gpu_topology,omitempty"`
	Capabilities   []Capability    `json:"gpu_capabilities,omitempty"`
	MIG            *MIG            `json:"mig,omitempty"`
	MPS            *MPS            `json:"mps,omitempty"`
	Processes      []Process       `json:"processes,omitempty"`
	Events         []KernelEvent   `json:"kernel_events,omitempty"`
}

// MarshalJSON prints the three card lists as [] rather than null when empty:
// "no card" is a statement here.
func (p Parsed) MarshalJSON() ([]byte, error) {
	type plain Parsed
	q := plain(p)
	q.GPUs = orEmpty(q.GPUs)
	q.Stats = orEmpty(q.Stats)
	q.Failures = orEmpty(q.Failures)
	return json.Marshal(q)
}

// BlameUnlisted adds the failures of cards that p does not list. An error line
// about a card that is listed may be about one value of it.
func (p *Parsed) BlameUnlisted(failures []Failure) {
	for _, f := range failures {
		if !slices.ContainsFunc(p.GPUs, f.of) {
			p.Failures = append(p.Failures, f)
		}
	}
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// CollectorError says that a vendor's tool failed as a whole. In JSON it is the
// one string "code: message".
type CollectorError struct {
	Code    string // a stable snake_case word, e.g. driver_not_loaded
	Message string // the tool's own words, or what happened to the tool
}

// Error returns "code: message".
func (e *CollectorError) Error() string {
	if e.Code == "" {
		return e.Message
	}
	return e.Code + ": " + e.Message
}

// MarshalText makes the JSON string.
func (e *CollectorError) MarshalText() ([]byte, error) { return []byte(e.Error()), nil }

// Process is one row of a tool's process table. Such tables are best effort:
// some tools cut them, and pids may belong to another pid namespace.
type Process struct {
	PID        int    `json:"pid"`
	Name       string `json:"name,omitempty"`
	Index      *int   `json:"index,omitempty"`   // the card, when it is one
	Indexes    []int  `json:"indexes,omitempty"` // the cards, when the tool sums several
	UUID       string `json:"uuid,omitempty"`    // of the card
	MemoryUsed *int64 `json:"memory_used_bytes,omitempty"`
}

// KernelEvent is one driver message of the kernel log that blames cards.
type KernelEvent struct {
	Kind    string   `json:"kind"` // xid, sxid, fallen_off_bus
	Code    *int     `json:"code,omitempty"`
	BusIDs  []string `json:"bus_ids,omitempty"`
	Message string   `json:"message,omitempty"`
}

// MIG is what the nvidia-smi MIG commands printed.
type MIG struct {
	Profiles   []MIGProfile   `json:"gi_profiles,omitempty"`
	GIs        []GPUInstance  `json:"gpu_instances,omitempty"`
	Devices    []MIGDevice    `json:"mig_devices,omitempty"`
	Placements []MIGPlacement `json:"placements,omitempty"`
	Result     *MIGResult     `json:"mig_result,omitempty"`
	ModeChange *MIGModeChange `json:"mig_mode_change,omitempty"`
}

// MIGProfile is one row of "mig -lgip". ID is the driver's id of the profile,
// which the same name does not share across products.
type MIGProfile struct {
	GPU       int      `json:"gpu"`
	Profile   string   `json:"profile"`
	ID        int      `json:"profile_id"`
	Free      int      `json:"free"`
	Total     int      `json:"total"`
	MemoryGiB *float64 `json:"memory_gib,omitempty"`
	SM        *int     `json:"sm,omitempty"`
}

// GPUInstance is one row of "mig -lgi".
type GPUInstance struct { //nolint:revive // NVIDIA's term
	GPU       int    `json:"gpu"`
	GI        int    `json:"gi"`
	Profile   string `json:"profile"`
	ProfileID int    `json:"profile_id"`
	Start     int    `json:"start"`
	Size      int    `json:"size"`
}

// MIGDevice is one MIG device of the default table or of -L.
type MIGDevice struct {
	GPU         *int   `json:"gpu,omitempty"`
	MIGIndex    *int   `json:"mig_index,omitempty"`
	GI          *int   `json:"gi,omitempty"`
	CI          *int   `json:"ci,omitempty"`
	UUID        string `json:"uuid,omitempty"`
	Profile     string `json:"profile,omitempty"`
	MemoryTotal *int64 `json:"memory_total_bytes,omitempty"`
	MemoryUsed  *int64 `json:"memory_used_bytes,omitempty"`
	SM          *int   `json:"sm,omitempty"`
}

// MIGPlacement is one row of "mig -lgipp".
type MIGPlacement struct {
	GPU       int   `json:"gpu"`
	ProfileID int   `json:"profile_id"`
	Starts    []int `json:"starts"`
	Size      int   `json:"size"`
}

// MIGResult is the outcome of a create or destroy command; a list stops at the
// first failure and leaves the earlier ones standing.
type MIGResult struct {
	OK            bool     `json:"ok"`
	CreatedGI     []MIGRef `json:"created_gi,omitempty"`
	CreatedCI     []MIGRef `json:"created_ci,omitempty"`
	DestroyedGI   []MIGRef `json:"destroyed_gi,omitempty"`
	DestroyedCI   []MIGRef `json:"destroyed_ci,omitempty"`
	FailedGI      []MIGRef `json:"failed_gi,omitempty"`
	FailedCI      []MIGRef `json:"failed_ci,omitempty"`
	FailedProfile string   `json:"failed_profile,omitempty"`
	Error         string   `json:"error,omitempty"` // in_use, insufficient_resources, …
}

// MIGRef names an instance in a MIGResult.
type MIGRef struct {
	GPU       int    `json:"gpu"`
	GI        int    `json:"gi"`
	CI        *int   `json:"ci,omitempty"`
	Profile   string `json:"profile,omitempty"`
	ProfileID *int   `json:"profile_id,omitempty"`
}

// MIGModeChange is the outcome of "nvidia-smi -mig". Pending means that the
// mode is not in force yet.
type MIGModeChange struct {
	OK      bool   `json:"ok"`
	Pending bool   `json:"pending"`
	BusID   string `json:"bus_id,omitempty"`
}

// MPS is what nvidia-cuda-mps-control, or a client of it, printed.
type MPS struct {
	Daemon        *bool         `json:"daemon,omitempty"` // whether a daemon answered; nil: the text does not say
	PID           *int          `json:"pid,omitempty"`
	Servers       []int         `json:"servers,omitempty"`
	Clients       map[int][]int `json:"clients,omitempty"` // server pid → client pids
	ThreadPercent *float64      `json:"default_active_thread_percentage,omitempty"`
	PipeDirectory string        `json:"pipe_directory,omitempty"`
	ClientError   *int          `json:"client_error,omitempty"` // a CUDA error code
}
