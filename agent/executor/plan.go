package executor

import (
	"context"

	"go.uber.org/zap"

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

// promiseShm refuses a task for whose processes the host has too little shared memory.
func (t *task) promiseShm(ctx context.Context, shm preflight.Shm) error {
	if limit := t.spec.MemoryBytes; limit > 0 && shm.Bytes > limit {
		t.log.Warn("shm_size_bytes is more than memory_bytes, of which it is a part: the task is killed before it can fill it",
			zap.Int64("shm_size_bytes", shm.Bytes), zap.Int64("memory_bytes", limit))
	}
	if shm.HostBytes == 0 {
		return nil
	}
	free, known := t.e.Free(ctx, preflight.HostShm)
	if !known {
		t.log.Warn("what is free in the host's shared memory is not known; the task is launched all the same", zap.String("path", preflight.HostShm))
		return nil
	}
	if err := t.e.shm.Make(t.owner(), shm, free); err != nil {
		return fail(protocol.ReasonShmTooSmall, err)
	}
	return nil
}
