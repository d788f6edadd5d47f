package protocol

import "slices"

// Reason is the short stable word that says why a task ended or could not
// start. The prose stands in error_message.
type Reason string

// The reasons.
const (
	ReasonExited            Reason = "exited"             // the process ended by itself
	ReasonTimeout           Reason = "timeout"            // timeout_seconds passed; exit code 124
	ReasonOOMKilled         Reason = "oom_killed"         // the kernel killed it for memory
	ReasonImagePullFailed   Reason = "image_pull_failed"  // pull budget used up
	ReasonImageNotFound     Reason = "image_not_found"    // the registry has no such image
	ReasonRegistryDenied    Reason = "registry_denied"    // the registry refused the credentials
	ReasonVolumeDenied      Reason = "volume_denied"      // a host path outside the fence
	ReasonShmTooSmall       Reason = "shm_too_small"      // the engine would die of its /dev/shm
	ReasonGPUUnavailable    Reason = "gpu_unavailable"    // the card is missing or failed
	ReasonGPUConflict       Reason = "gpu_conflict"       // the card is held by another task
	ReasonInvalidSpec       Reason = "invalid_spec"       // the task does not pass Validate
	ReasonStartFailed       Reason = "start_failed"       // the runtime refused to start it
	ReasonContainerLost     Reason = "container_lost"     // running at the server, no container here
	ReasonStopped           Reason = "stopped"            // stopped on request
	ReasonCancelled         Reason = "cancelled"          // cancelled on request
	ReasonEngineUnavailable Reason = "engine_unavailable" // no engine on the node serves the model
	ReasonStopTimeout       Reason = "stop_timeout"       // would not die
	ReasonExitUnknown       Reason = "exit_unknown"       // the runtime lost the exit code; never reported as 0
	ReasonUnhealthy         Reason = "unhealthy"          // its service fell ill, for which the task wanted to be ended
)

// Reasons lists every reason this release knows.
func Reasons() []Reason {
	return []Reason{
		ReasonExited, ReasonTimeout, ReasonOOMKilled, ReasonImagePullFailed, ReasonImageNotFound,
		ReasonRegistryDenied, ReasonVolumeDenied, ReasonShmTooSmall, ReasonGPUUnavailable, ReasonGPUConflict,
		ReasonInvalidSpec, ReasonStartFailed, ReasonContainerLost, ReasonStopped, ReasonCancelled,
		ReasonEngineUnavailable, ReasonStopTimeout, ReasonExitUnknown, ReasonUnhealthy,
	}
}

// Known reports whether this release knows the reason.
func (r Reason) Known() bool { return slices.Contains(Reasons(), r) }

// ExitCodeTimeout is the exit code reported for a task that its timeout
// ended, as timeout(1) does.
const ExitCodeTimeout = 124
