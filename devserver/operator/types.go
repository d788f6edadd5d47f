// Package operator is the Go client of the reference control plane's operator
// API, and the types that API speaks.
//
// It owns no state and runs no goroutine. The token it is given travels in
// the Authorization header only.
package operator

import (
	"encoding/json"
	"time"

	"github.com/heteroflow/node-agent/protocol"
)

// Task is a task as an operator sees it: what was asked, where it stands,
// what came of it. Registry credentials read ***.
type Task struct {
	protocol.Task
	Outcome   Outcome   `json:"outcome" doc:"What the node reported of the present assignment."`
	CreatedAt time.Time `json:"created_at" doc:"When the task was created."`
	UpdatedAt time.Time `json:"updated_at" doc:"When it last changed."`
}

// Outcome is what the node reported in its updates of one assignment, the
// newest value of each field.
type Outcome struct {
	ContainerID      string                     `json:"container_id,omitempty" doc:"Runtime's identifier of the container."`
	StartedAt        *time.Time                 `json:"started_at,omitzero" doc:"When the container started."`
	FinishedAt       *time.Time                 `json:"finished_at,omitzero" doc:"When it ended."`
	ExitCode         *int                       `json:"exit_code,omitzero" doc:"Exit code; absent: none or not known."`
	Reason           protocol.Reason            `json:"reason,omitempty" doc:"Why it ended."`
	ErrorMessage     string                     `json:"error_message,omitempty" doc:"What happened, for people."`
	OOMKilled        *bool                      `json:"oom_killed,omitzero" doc:"Whether the kernel killed a process of it for memory."`
	LogTail          string                     `json:"log_tail,omitempty" doc:"End of the container's output."`
	CheckpointResume *protocol.CheckpointResume `json:"checkpoint_resume,omitzero" doc:"What the checkpoint probe decided."`
}

// Tasks is the answer to a task list.
type Tasks struct {
	Tasks []Task `json:"tasks" doc:"Tasks, oldest first."`
}

// Event is one step in a task's life.
type Event struct {
	At         time.Time           `json:"at" doc:"Server's clock."`
	Kind       EventKind           `json:"kind" doc:"What happened."`
	From       protocol.TaskStatus `json:"from,omitempty" doc:"Status before; absent at the creation."`
	To         protocol.TaskStatus `json:"to" doc:"Status after."`
	NodeID     string              `json:"node_id,omitempty" doc:"The task's node after the step."`
	Generation int64               `json:"generation" doc:"The task's generation after the step."`
	Reason     protocol.Reason     `json:"reason,omitempty" doc:"Reason the node gave."`
}

// EventKind is what an event is.
type EventKind string

// The kinds of event.
const (
	EventCreated    EventKind = "created"
	EventOperator   EventKind = "operator"   // an operator changed the status
	EventNode       EventKind = "node"       // the node's compare-and-set
	EventCheckpoint EventKind = "checkpoint" // the node told what its probe decided
)

// History is the timeline of one task.
type History struct {
	Events []Event `json:"events" doc:"Steps, oldest first."`
}

// Action is what an operator wants of a task.
type Action string

// The actions on a task.
const (
	ActionStop   Action = "stop"   // running: stopping; not started: cancelled
	ActionSleep  Action = "sleep"  // running: sleeping
	ActionWake   Action = "wake"   // asleep: waking
	ActionCancel Action = "cancel" // anything not terminal: cancelled
)

// Assignment gives a task to a node, with a new generation.
type Assignment struct {
	NodeID string `json:"node_id" doc:"Node that is to run it."`
}

// RequestState is a slice, image or file request as an operator sees it.
type RequestState struct {
	ID           string                 `json:"id" doc:"Identifier."`
	Channel      protocol.Channel       `json:"channel" doc:"slice, image or file."`
	NodeID       string                 `json:"node_id" doc:"Node it is for."`
	Status       protocol.RequestStatus `json:"status" doc:"Where it stands."`
	Spec         json.RawMessage        `json:"spec" doc:"The request as it was created, without registry credentials."`
	Result       json.RawMessage        `json:"result,omitempty" doc:"What the node did."`
	Reason       protocol.RequestReason `json:"reason,omitempty" doc:"Why it failed."`
	ErrorMessage string                 `json:"error_message,omitempty" doc:"What happened, for people."`
	CreatedAt    time.Time              `json:"created_at" doc:"When it was created."`
	UpdatedAt    time.Time              `json:"updated_at" doc:"When it last changed."`
}

// Requests is the answer to a request list.
type Requests struct {
	Requests []RequestState `json:"requests" doc:"Requests, oldest first."`
}

// Node is what the server knows of a node.
type Node struct {
	NodeID     string          `json:"node_id" doc:"The node."`
	State      State           `json:"state" doc:"What the server makes of its heartbeats."`
	Drain      bool            `json:"drain" doc:"The node was told to claim nothing new."`
	ReceivedAt *time.Time      `json:"received_at,omitzero" doc:"When its last heartbeat came; absent: none yet."`
	Instances  []Instance      `json:"instances,omitempty" doc:"Agents that beat with this node id within the last hour."`
	Conflict   bool            `json:"conflict" doc:"Two agents beat with this node id at the same time: two machines, or two agents on one."`
	Heartbeat  json.RawMessage `json:"heartbeat,omitempty" doc:"The last heartbeat, as it was received."`
	GPUs       []Card          `json:"gpus" doc:"Known cards."`
	Models     Models          `json:"models" doc:"Models of the node, kept over heartbeats that leave them out."`
}

// State is what the server makes of a node's heartbeats.
type State string

// The states of a node at the server.
const (
	StateOnline   State = "online"
	StateDraining State = "draining"
	StateOffline  State = "offline" // said so, or silent for three periods
	StateUnknown  State = "unknown" // no heartbeat yet
)

// Instance is one start of an agent.
type Instance struct {
	InstanceID string    `json:"instance_id" doc:"Random per start of the agent."`
	BootID     string    `json:"boot_id,omitempty" doc:"Kernel's boot id."`
	FirstSeen  time.Time `json:"first_seen" doc:"When its first heartbeat came."`
	LastSeen   time.Time `json:"last_seen" doc:"When its last heartbeat came."`
}

// Tier is the class of service that a card can give to a part of itself.
type Tier string

// The tiers.
const (
	TierGold   Tier = "gold"   // partitioned by hardware (MIG)
	TierSilver Tier = "silver" // shared through MPS
	TierBronze Tier = "bronze" // neither confirmed
)

// Card is one card of a node as the server counts it.
type Card struct {
	protocol.Device
	Tier        Tier   `json:"tier" doc:"Class of service, derived from the confirmed capabilities."`
	Lost        bool   `json:"lost" doc:"Could not be read, or was missing, in three heartbeats running."`
	Failed      bool   `json:"failed" doc:"Reported itself failed in its last measurement."`
	Allocatable bool   `json:"allocatable" doc:"Not lost and not failed."`
	Problem     string `json:"problem,omitempty" doc:"Last failure that was reported for it."`
	BadBeats    int    `json:"bad_beats,omitzero" doc:"Heartbeats running in which it failed or was missing."`
	GoodBeats   int    `json:"good_beats,omitzero" doc:"Heartbeats running in which it was read, while lost."`
}

// Models is what is known of a node's models.
type Models struct {
	Digest     string           `json:"digest,omitempty" doc:"Digest the node gave."`
	Cached     []protocol.Model `json:"cached,omitempty" doc:"Models in the model cache."`
	Discovered []protocol.Model `json:"discovered,omitempty" doc:"Models found elsewhere."`
}

// Nodes is the answer to the node list.
type Nodes struct {
	Nodes []Node `json:"nodes" doc:"Nodes, by name."`
}

// Drain sets whether a node claims new tasks.
type Drain struct {
	Drain bool `json:"drain" doc:"true: claim nothing new, keep what runs."`
}
