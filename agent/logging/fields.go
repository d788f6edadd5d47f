package logging

import (
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// TaskID names the task an event is about.
func TaskID(id string) zap.Field { return zap.String("task_id", id) }

// Generation tells which assignment of the task it is.
func Generation(n int64) zap.Field { return zap.Int64("generation", n) }

// Status is the task's status at the control plane.
func Status(s protocol.TaskStatus) zap.Field { return zap.String("status", string(s)) }

// Reason is the protocol's word for why a task ended.
func Reason(r protocol.Reason) zap.Field { return zap.String("reason", string(r)) }

// ExitCode is the container's exit code; a nil one is left out.
func ExitCode(code *int) zap.Field { return zap.Intp("exit_code", code) }

// ContainerID names the container an event is about.
func ContainerID(id string) zap.Field { return zap.String("container_id", id) }

// ContainerState is what the container is doing.
func ContainerState(s runtime.State) zap.Field { return zap.String("container_state", string(s)) }

// Image is the image reference as the task gave it.
func Image(ref string) zap.Field { return zap.String("image", ref) }

// Runtime names the container runtime.
func Runtime(name runtime.Name) zap.Field { return zap.String("runtime", string(name)) }

// NodeID is this node.
func NodeID(id string) zap.Field { return zap.String("node_id", id) }

// Attempt counts tries from 1.
func Attempt(n int) zap.Field { return zap.Int("attempt", n) }

// Took is how long it took.
func Took(d time.Duration) zap.Field { return zap.Duration("took", d) }
