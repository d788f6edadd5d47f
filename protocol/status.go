package protocol

import "slices"

// TaskStatus is where a task stands. A word this release does not know is
// carried as it is and is not terminal.
type TaskStatus string

// The statuses of a task.
const (
	StatusPending   TaskStatus = "pending"   // waits for a node
	StatusScheduled TaskStatus = "scheduled" // has a node, not claimed yet
	StatusRunning   TaskStatus = "running"   // claimed by its node's agent
	StatusStopping  TaskStatus = "stopping"  // the agent is to stop it for good
	StatusStopped   TaskStatus = "stopped"   // stopped by intent; terminal
	StatusSleeping  TaskStatus = "sleeping"  // the agent is to stop it and keep the container
	StatusAsleep    TaskStatus = "asleep"    // container stopped and kept
	StatusWaking    TaskStatus = "waking"    // the agent is to start the kept container again
	StatusCompleted TaskStatus = "completed" // exited with code 0; terminal
	StatusFailed    TaskStatus = "failed"    // ended otherwise; terminal
	StatusCancelled TaskStatus = "cancelled" // withdrawn; terminal
)

// TaskStatuses lists every status this release knows, in the order of a
// task's life.
func TaskStatuses() []TaskStatus {
	return []TaskStatus{
		StatusPending, StatusScheduled, StatusRunning,
		StatusStopping, StatusStopped,
		StatusSleeping, StatusAsleep, StatusWaking,
		StatusCompleted, StatusFailed, StatusCancelled,
	}
}

// Known reports whether this release knows the status.
func (s TaskStatus) Known() bool { return slices.Contains(TaskStatuses(), s) }

// Terminal reports whether the task has ended for good. An unknown status is
// not terminal: what runs under it is left alone.
func (s TaskStatus) Terminal() bool {
	switch s {
	case StatusCompleted, StatusFailed, StatusCancelled, StatusStopped:
		return true
	default:
		return false
	}
}

// Transition is one step of a task from one status to another.
type Transition struct {
	From TaskStatus
	To   TaskStatus
}

// serverTransitions is everything a control plane may store. scheduled and
// running lead back to scheduled because a task may be assigned again, with a
// new generation, when its node is lost.
var serverTransitions = map[TaskStatus][]TaskStatus{
	StatusPending:   {StatusScheduled, StatusCancelled},
	StatusScheduled: {StatusPending, StatusScheduled, StatusRunning, StatusCancelled},
	StatusRunning:   {StatusScheduled, StatusCompleted, StatusFailed, StatusStopping, StatusSleeping, StatusCancelled},
	StatusStopping:  {StatusStopped, StatusCancelled},
	StatusSleeping:  {StatusAsleep, StatusStopping, StatusCancelled},
	StatusAsleep:    {StatusWaking, StatusStopping, StatusCancelled},
	StatusWaking:    {StatusRunning, StatusStopping, StatusCancelled},
}

// agentTransitions is the part of serverTransitions that an agent makes. A
// container that cannot be woken is reported as waking to running to failed.
var agentTransitions = []Transition{
	{StatusScheduled, StatusRunning},
	{StatusRunning, StatusCompleted},
	{StatusRunning, StatusFailed},
	{StatusStopping, StatusStopped},
	{StatusSleeping, StatusAsleep},
	{StatusWaking, StatusRunning},
}

// CanTransition reports whether a control plane may store the step from one
// status to another, whoever asks for it. Nothing leaves a terminal status,
// and nothing leads from or to an unknown one.
func CanTransition(from, to TaskStatus) bool {
	return slices.Contains(serverTransitions[from], to)
}

// AgentTransitions lists the steps an agent makes; each is one that
// CanTransition allows.
func AgentTransitions() []Transition { return slices.Clone(agentTransitions) }

// AgentCanTransition reports whether the step is one an agent makes.
func AgentCanTransition(from, to TaskStatus) bool {
	return slices.Contains(agentTransitions, Transition{from, to})
}
