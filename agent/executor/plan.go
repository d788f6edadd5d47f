package executor

import (
	"context"

	"github.com/heteroflow/node-agent/agent/preflight"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
)

// plan says what the task's container is made from. It refuses what can never run, and
// what this node cannot run now, before anything is made for it.
func (t *task) plan(ctx context.Context) (taskcontainer.Blueprint, error) {
	if err := t.spec.Validate(); err != nil {
		return taskcontainer.Blueprint{}, fail(protocol.ReasonInvalidSpec, err)
	}
	devices, err := t.resolve(ctx)
	if err != nil {
		return taskcontainer.Blueprint{}, err
	}
	task := *t.spec
	shm := preflight.ShmFor(task, devices.HostShm)
	if err := t.promiseShm(ctx, shm); err != nil {
		return taskcontainer.Blueprint{}, err
	}
	task.IPC, task.ShmSizeBytes = shm.IPC, shm.Bytes
	return t.e.Builder.Build(task, devices, t.log)
}
