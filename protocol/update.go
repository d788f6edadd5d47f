package protocol

import "time"

// TaskUpdate is the body of the task PUT: a compare-and-set. The server
// applies it only where the stored status equals FromStatus, the stored node
// equals NodeID and, when given, the stored generation equals Generation.
type TaskUpdate struct {
	NodeID     string     `json:"node_id" doc:"The caller's node; must equal the stored one."`
	FromStatus TaskStatus `json:"from_status" doc:"Status the caller believes is stored."`
	Status     TaskStatus `json:"status" doc:"New status."`
	Generation *int64     `json:"generation,omitzero" doc:"Assignment the caller acts for; absent: not compared."`

	ContainerID  string     `json:"container_id,omitempty" doc:"Runtime's identifier of the container."`
	StartedAt    *time.Time `json:"started_at,omitzero" doc:"When the container started."`
	FinishedAt   *time.Time `json:"finished_at,omitzero" doc:"When it ended."`
	ExitCode     *int       `json:"exit_code,omitzero" doc:"Exit code; absent: none or not known."`
	Reason       Reason     `json:"reason,omitempty" doc:"Why it ended, in one stable word."`
	ErrorMessage string     `json:"error_message,omitempty" doc:"What happened, for people; at most 16 KiB is kept."`
	OOMKilled    *bool      `json:"oom_killed,omitzero" doc:"Whether the kernel killed a process of it for memory; absent: not known."`
	LogTail      string     `json:"log_tail,omitempty" doc:"Last 64 KiB of the container's output, invalid UTF-8 replaced."`
}

// MaxLogTailBytes bounds TaskUpdate.LogTail.
const MaxLogTailBytes = 64 << 10

// MaxErrorMessageBytes bounds what a server keeps of an error_message.
const MaxErrorMessageBytes = 16 << 10
