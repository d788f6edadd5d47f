package protocol

import (
	"slices"
	"time"
)

// NodeState is what a node says of itself.
type NodeState string

// The states of a node.
const (
	NodeOnline   NodeState = "online"
	NodeDraining NodeState = "draining" // claims nothing new
	NodeOffline  NodeState = "offline"  // only in the last heartbeat of an orderly stop
)

// NodeStates lists the states this release knows.
func NodeStates() []NodeState { return []NodeState{NodeOnline, NodeDraining, NodeOffline} }

// Known reports whether this release knows the state.
func (s NodeState) Known() bool { return slices.Contains(NodeStates(), s) }

// DrainSource is who keeps a node from claiming new tasks.
type DrainSource string

// The sources.
const (
	DrainByServer   DrainSource = "control_plane" // by its answer to a heartbeat
	DrainByOperator DrainSource = "operator"      // by a command on the node
)

// DrainSources lists the sources this release knows.
func DrainSources() []DrainSource { return []DrainSource{DrainByServer, DrainByOperator} }

// Known reports whether this release knows the source.
func (s DrainSource) Known() bool { return slices.Contains(DrainSources(), s) }

// Drain is one reason for which a node claims nothing new.
type Drain struct {
	By     DrainSource `json:"by" doc:"Who wants it."`
	User   string      `json:"user,omitempty" doc:"Who gave the command on the node, as the node knows that user."`
	Reason string      `json:"reason,omitempty" doc:"Why, in that user's words."`
	Since  *time.Time  `json:"since,omitzero" doc:"When the command was given; absent: not known."`
}

// ExecMode is how a node runs tasks. It is a report only: nothing runs
// without a container runtime.
type ExecMode string

// The execution modes.
const (
	ExecDocker     ExecMode = "docker"
	ExecContainerd ExecMode = "containerd"
	ExecBareMetal  ExecMode = "baremetal" // no container runtime answers
)

// ExecModes lists the execution modes this release knows.
func ExecModes() []ExecMode { return []ExecMode{ExecDocker, ExecContainerd, ExecBareMetal} }

// Known reports whether this release knows the mode.
func (m ExecMode) Known() bool { return slices.Contains(ExecModes(), m) }

// Heartbeat is the whole report of a node, every 5 seconds. The first one
// registers the node.
type Heartbeat struct {
	NodeID     string    `json:"node_id" doc:"The node, [A-Za-z0-9][A-Za-z0-9_.-]{0,127}."`
	BootID     string    `json:"boot_id,omitempty" doc:"Kernel's boot id."`
	InstanceID string    `json:"instance_id,omitempty" doc:"Random per start of the agent; two that beat at once are two machines with one node id."`
	Sequence   int64     `json:"sequence" doc:"Grows by one with every heartbeat of this instance."`
	SentAt     time.Time `json:"sent_at" doc:"Node's clock when it was sent."`
	State      NodeState `json:"state" doc:"What the node says of itself."`
	DrainedBy  []Drain   `json:"drained_by,omitempty" doc:"Who wants the node to claim nothing new; absent: nobody."`
	Protocol   int       `json:"protocol" doc:"Protocol number."`

	AgentVersion   string `json:"agent_version,omitempty" doc:"Release of the agent; dev in a bare build."`
	AgentCommit    string `json:"agent_commit,omitempty" doc:"Commit it was built from; ends in -dirty when the tree was; unknown in a bare build."`
	AgentBuildTime string `json:"agent_build_time,omitempty" doc:"When it was built; unknown in a bare build."`

	Host
	GPUReport
	WorkReport
	ModelReport
}

// Host is the part of a heartbeat that describes the machine.
type Host struct {
	Hostname   string `json:"hostname,omitempty" doc:"Host name."`
	OS         string `json:"os,omitempty" doc:"Distribution and release."`
	Kernel     string `json:"kernel,omitempty" doc:"Kernel release."`
	Arch       string `json:"arch,omitempty" doc:"Processor architecture, as Go names it."`
	MACAddress string `json:"mac_address,omitempty" doc:"Of the interface that routes to the control plane."`
	InternalIP string `json:"internal_ip,omitempty" doc:"Of the interface that routes to the control plane."`

	CPUUsagePercent  *float64 `json:"cpu_usage_percent,omitzero" doc:"Usage of all CPUs together since the last round, 0 to 100."`
	CPUCores         *int     `json:"cpu_cores,omitzero" doc:"Logical CPUs."`
	Load1            *float64 `json:"load1,omitzero" doc:"Load average over one minute."`
	MemoryTotalBytes *int64   `json:"memory_total_bytes,omitzero" doc:"Memory in bytes."`
	MemoryUsedBytes  *int64   `json:"memory_used_bytes,omitzero" doc:"Total less available, in bytes."`
	Disks            []Disk   `json:"disks,omitempty" doc:"File systems of the state directory, the runtime's root and the model directories; one row a file system."`

	DockerAvailable bool           `json:"docker_available" doc:"The selected container runtime answers; the name is kept for compatibility."`
	Runtime         *RuntimeReport `json:"runtime,omitzero" doc:"The selected container runtime."`
	ExecMode        ExecMode       `json:"exec_mode,omitempty" doc:"How the node runs tasks; baremetal: no runtime answers, nothing can run."`
	ErrorMessage    string         `json:"error_message,omitempty" doc:"The most important standing problem of the node."`
}

// Disk is one file system.
type Disk struct {
	Path       string `json:"path" doc:"Directory that was asked about."`
	TotalBytes int64  `json:"total_bytes" doc:"Size in bytes."`
	FreeBytes  int64  `json:"free_bytes" doc:"Free for unprivileged users, in bytes."`
}

// RuntimeReport is the state of the selected container runtime.
type RuntimeReport struct {
	Name      string `json:"name" doc:"docker or containerd."`
	Version   string `json:"version,omitempty" doc:"Version of the daemon."`
	Available bool   `json:"available" doc:"It answered in this round."`
	Error     string `json:"error,omitempty" doc:"Why it did not."`
	CDI       bool   `json:"cdi" doc:"It takes CDI device names itself."`
	Why       string `json:"chosen_because,omitempty" doc:"Why the agent uses this runtime; absent: none has answered yet."`
}

// GPUReport is the part of a heartbeat that describes the cards.
type GPUReport struct {
	GPUs               []Device         `json:"gpus,omitzero" doc:"Inventory. Absent: as in the last heartbeat that had it (delta_heartbeat); []: no card."`
	GPUStats           []DeviceStats    `json:"gpu_stats,omitzero" doc:"Measurements; absent: none were collected. One that names some cards says that the others could not be read."`
	GPUCollectFailures []CollectFailure `json:"gpu_collect_failures,omitzero" doc:"One row a card that failed and could be named; absent or []: none."`
	GPUCollectorError  string           `json:"gpu_collector_error,omitempty" doc:"The collector as a whole failed."`
	GPUTopology        *Topology        `json:"gpu_topology,omitzero" doc:"How the cards are connected."`
	GPUCapabilities    []Capability     `json:"gpu_capabilities,omitzero" doc:"How each card can be shared now; absent: not known."`
}

// WorkReport is the part of a heartbeat that describes what runs.
type WorkReport struct {
	LiveTaskIDs        []string     `json:"live_task_ids,omitzero" doc:"Tasks whose container was seen running in this round; absent: the runtime could not be asked."`
	TaskHealth         []TaskHealth `json:"task_health,omitempty" doc:"Health of the probed services."`
	UndeliveredResults *int         `json:"undelivered_results,omitzero" doc:"Terminal results in the journal that the server has not taken."`
	InferenceEngines   []Engine     `json:"inference_engines,omitzero" doc:"Engines on the node."`
	Pulls              []Pull       `json:"pulls,omitempty" doc:"Image pulls under way."`
}

// ModelReport is the part of a heartbeat that describes the models.
type ModelReport struct {
	CachedModels     []Model `json:"cached_models,omitzero" doc:"Models in the model cache; absent with models_unchanged."`
	DiscoveredModels []Model `json:"discovered_models,omitzero" doc:"Models found by the scanner and named by running engines; absent with models_unchanged."`
	ModelsDigest     string  `json:"models_digest,omitempty" doc:"Digest over both lists."`
	ModelsUnchanged  bool    `json:"models_unchanged,omitempty" doc:"Both lists are as the server acknowledged them under this digest."`
}

// HeartbeatReply answers a heartbeat. An empty object means: no optional
// feature, nothing asked.
type HeartbeatReply struct {
	NodeID     string     `json:"node_id,omitempty" doc:"The node."`
	ServerTime *time.Time `json:"server_time,omitzero" doc:"Server's clock."`
	Features   Features   `json:"features,omitzero" doc:"What the server offers beyond the base."`
	NeedFull   bool       `json:"need_full,omitempty" doc:"The next heartbeat is to be complete."`
	Drain      bool       `json:"drain,omitempty" doc:"Claim nothing new, keep what runs."`
}

// Features is what a server offers beyond the base protocol.
type Features struct {
	WakeMaxSeconds int  `json:"wake_max_seconds,omitzero" doc:"Longest wait of the wake call in seconds; 0 or absent: not offered."`
	DeltaHeartbeat bool `json:"delta_heartbeat,omitempty" doc:"Unchanged parts may be left out of a heartbeat."`
	Gzip           bool `json:"gzip,omitempty" doc:"Request bodies may be gzip-encoded."`
}
