package protocol

import (
	"fmt"
	"slices"
	"time"
)

// TaskType is what kind of work a task is.
type TaskType string

// The task types. An absent type is a batch task.
const (
	TaskTraining  TaskType = "training"
	TaskInference TaskType = "inference"
	TaskBatch     TaskType = "batch"
)

// TaskTypes lists the task types this release knows.
func TaskTypes() []TaskType { return []TaskType{TaskTraining, TaskInference, TaskBatch} }

// Known reports whether this release knows the type.
func (t TaskType) Known() bool { return slices.Contains(TaskTypes(), t) }

// NetworkMode is the network a container lives in.
type NetworkMode string

// The network modes. An absent mode is bridge.
const (
	NetworkHost   NetworkMode = "host"
	NetworkBridge NetworkMode = "bridge"
	NetworkNone   NetworkMode = "none"
)

// NetworkModes lists the network modes this release knows.
func NetworkModes() []NetworkMode { return []NetworkMode{NetworkHost, NetworkBridge, NetworkNone} }

// Known reports whether this release knows the mode.
func (m NetworkMode) Known() bool { return slices.Contains(NetworkModes(), m) }

// IPCMode is whose System V IPC and /dev/shm a container uses.
type IPCMode string

// The IPC modes. An absent mode is private.
const (
	IPCPrivate IPCMode = "private"
	IPCHost    IPCMode = "host"
)

// IPCModes lists the IPC modes this release knows.
func IPCModes() []IPCMode { return []IPCMode{IPCPrivate, IPCHost} }

// Known reports whether this release knows the mode.
func (m IPCMode) Known() bool { return slices.Contains(IPCModes(), m) }

// Task is what a control plane asks a node to run, and the authoritative
// state of it. Validate checks one that came from outside.
type Task struct {
	ID         string     `json:"id" doc:"Identifier, [A-Za-z0-9][A-Za-z0-9_.-]{0,62}; the container is named task-{id}."`
	Name       string     `json:"name,omitempty" doc:"Name for people, at most 256 bytes."`
	Type       TaskType   `json:"type,omitempty" doc:"Kind of work; absent: batch."`
	Status     TaskStatus `json:"status" doc:"Where the task stands. completed, failed, cancelled and stopped are terminal; every other word, known or not, is not."`
	NodeID     string     `json:"node_id,omitempty" doc:"Node the task is assigned to; absent while it has none."`
	Generation int64      `json:"generation" doc:"Grows by one at every assignment to a node."`

	Image        string        `json:"image" doc:"Image reference, tag and digest forms, at most 512 bytes."`
	RegistryAuth *RegistryAuth `json:"registry_auth,omitzero" doc:"Credentials for this task's pull only; never stored on the node."`

	Command    []string `json:"command,omitempty" doc:"Replaces the image's entrypoint. At most 1024 items of 128 KiB."`
	Args       []string `json:"args,omitempty" doc:"Replaces the image's command. At most 1024 items of 128 KiB."`
	WorkingDir string   `json:"working_dir,omitempty" doc:"Absolute path in the container; absent: the image's."`
	User       string   `json:"user,omitempty" doc:"user[:group], names or numbers; absent: the image's."`
	Env        []string `json:"env,omitempty" doc:"NAME=value entries, at most 1024 of 128 KiB. An entry without = is dropped by the agent."`

	Volumes []Volume    `json:"volumes,omitempty" doc:"Host directories in the container, at most 64, each inside the node's path fence."`
	Network NetworkMode `json:"network,omitempty" doc:"Network of the container; absent: bridge."`
	Ports   []Port      `json:"ports,omitempty" doc:"Published ports, at most 128; not with network none."`

	CPUs         float64 `json:"cpus,omitzero" doc:"CPU limit in cores; 0 or absent: no limit."`
	MemoryBytes  int64   `json:"memory_bytes,omitzero" doc:"Memory limit in bytes; 0 or absent: no limit."`
	PIDsLimit    int64   `json:"pids_limit,omitzero" doc:"Limit of processes and threads; 0 or absent: the node's default."`
	ShmSizeBytes int64   `json:"shm_size_bytes,omitzero" doc:"Size of /dev/shm in bytes; 0 or absent: decided by the agent."`
	IPC          IPCMode `json:"ipc,omitempty" doc:"IPC namespace; absent: private, unless the agent knows that the work needs the host's."`

	Devices []TaskDevice `json:"devices,omitempty" doc:"Whole cards given to the task, at most 64."`
	Slices  []TaskSlice  `json:"slices,omitempty" doc:"Parts of cards given to the task, at most 64."`

	TimeoutSeconds   int64        `json:"timeout_seconds,omitzero" doc:"Longest run in seconds, at most 366 days; 0 or absent: no limit."`
	StopGraceSeconds *int64       `json:"stop_grace_seconds,omitzero" doc:"Seconds between SIGTERM and SIGKILL, at most 3600; absent: 30; 0: SIGKILL at once."`
	HealthCheck      *HealthCheck `json:"health_check,omitzero" doc:"Probe of an inference service; absent: none."`

	Framework            string     `json:"framework,omitempty" doc:"Training framework, decides how a checkpoint is judged complete; absent: found out from the files."`
	CheckpointPath       string     `json:"checkpoint_path,omitempty" doc:"Absolute path of the checkpoint directory in the container; probed before each start of a training task."`
	ResumeFromCheckpoint string     `json:"resume_from_checkpoint,omitempty" doc:"Checkpoint to resume from, given by the user; present: nothing is probed."`
	Engine               string     `json:"engine,omitempty" doc:"Inference engine asked for; absent: chosen by the node's priorities for the model's format."`
	Model                *TaskModel `json:"model,omitzero" doc:"Model an inference task serves."`

	Labels map[string]string `json:"labels,omitempty" doc:"Labels for the container, at most 64; keys that start with io.heteroflow. are refused."`
}

// DefaultStopGrace is the time between SIGTERM and SIGKILL where a task names
// none.
const DefaultStopGrace = 30 * time.Second

// StopGrace returns the time between SIGTERM and SIGKILL.
func (t Task) StopGrace() time.Duration {
	if t.StopGraceSeconds == nil {
		return DefaultStopGrace
	}
	return time.Duration(*t.StopGraceSeconds) * time.Second
}

// Timeout returns the longest run, or 0 for no limit.
func (t Task) Timeout() time.Duration { return time.Duration(t.TimeoutSeconds) * time.Second }

// String names the task for a log line. It holds nothing of its environment
// or credentials.
func (t Task) String() string {
	return fmt.Sprintf("task %s (%s, generation %d, node %q)", t.ID, t.Status, t.Generation, t.NodeID)
}

// TaskList is the answer to the task list call, oldest task first.
type TaskList struct {
	Tasks []Task `json:"tasks" doc:"Tasks, oldest first."`
}

// RegistryAuth is what a registry wants to see: a user with a password, or an
// identity token.
type RegistryAuth struct {
	Server        string `json:"server,omitempty" doc:"Registry host[:port] the credentials are for, to no other of which they are sent; absent: the image's."`
	Username      string `json:"username,omitempty" doc:"User name."`
	Password      Secret `json:"password,omitempty" doc:"Password; not together with identity_token."`
	IdentityToken Secret `json:"identity_token,omitempty" doc:"OAuth2 identity token; not together with password."`
}

// String names the account without its secrets.
func (a RegistryAuth) String() string { return fmt.Sprintf("%s@%s", a.Username, a.Server) }

// Volume is one host directory or file in a container.
type Volume struct {
	HostPath      string `json:"host_path" doc:"Absolute path on the node; one that holds .. is denied."`
	ContainerPath string `json:"container_path" doc:"Absolute, clean path in the container; not /, and each one once."`
	ReadOnly      bool   `json:"read_only,omitempty" doc:"Mounted read-only."`
}

// PortProtocol is the transport of a published port.
type PortProtocol string

// The transports. An absent one is tcp.
const (
	ProtocolTCP PortProtocol = "tcp"
	ProtocolUDP PortProtocol = "udp"
)

// PortProtocols lists the transports this release knows.
func PortProtocols() []PortProtocol { return []PortProtocol{ProtocolTCP, ProtocolUDP} }

// Known reports whether this release knows the transport.
func (p PortProtocol) Known() bool { return slices.Contains(PortProtocols(), p) }

// Port is one published port.
type Port struct {
	ContainerPort int          `json:"container_port" doc:"Port in the container, 1 to 65535."`
	HostPort      int          `json:"host_port" doc:"Port on the node, 1 to 65535."`
	Protocol      PortProtocol `json:"protocol,omitempty" doc:"Transport; absent: tcp."`
}

// TaskDevice names one whole card, by index, by uuid, or by both, which must
// then agree.
type TaskDevice struct {
	Vendor DeviceType `json:"vendor,omitempty" doc:"Vendor of the card; absent: the node's only one."`
	Index  *int       `json:"index,omitzero" doc:"Index of the card on the node, from 0."`
	UUID   string     `json:"uuid,omitempty" doc:"Vendor's identifier of the card."`
}

// TaskModel is the model an inference task serves.
type TaskModel struct {
	Path   string      `json:"path,omitempty" doc:"Absolute path on the node."`
	Format ModelFormat `json:"format,omitempty" doc:"Format of the weights."`
	Name   string      `json:"name,omitempty" doc:"Name under which it is served."`
}
