package executor

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/preflight"
	"github.com/heteroflow/node-agent/protocol"
)

// promises are what of the host's shared memory tasks were let in for. An engine takes it
// some time after it was let in, when its image has been pulled and its processes talk to
// each other: until then it is free for everybody who looks. A promise ends with its task's
// container. It is in memory only: what an earlier agent let in counts as taken.
type promises struct {
	mu     sync.Mutex
	to     map[*task]int64
	before int64 // what was free before the first of them
}

// make promises a task what it needs, if that is free beside what others are promised.
func (p *promises) make(t *task, need preflight.Shm, free preflight.Space) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.to) == 0 {
		p.to, p.before = make(map[*task]int64), free.Bytes
	}
	others := preflight.Promised{Free: p.before}
	for other, bytes := range p.to {
		if other != t {
			others.Bytes += bytes
		}
	}
	if err := need.Check(free, others); err != nil {
		return err
	}
	p.to[t] = need.HostBytes
	return nil
}

// end ends the promise to a task, if there is one.
func (p *promises) end(t *task) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.to, t)
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
	if err := t.e.shm.make(t, shm, free); err != nil {
		return fail(protocol.ReasonShmTooSmall, err)
	}
	return nil
}
