package preflight

import (
	"sync"

	"github.com/heteroflow/node-agent/agent/lease"
)

// Promises are what of the host's shared memory tasks were let in for. An engine takes it
// some time after it was let in, when its image has been pulled and its processes talk to
// each other: until then it is free for everybody who looks. Promises are in memory only:
// what an earlier agent let in counts as taken. The zero value has none.
type Promises struct {
	mu     sync.Mutex
	to     map[lease.Owner]int64
	before int64 // what was free before the first of them
}

// Make promises a task what it needs, if that is free beside what others are promised, and
// is a *ShmError otherwise. A task has one promise, however often it asks.
func (p *Promises) Make(task lease.Owner, need Shm, free Space) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.to) == 0 {
		p.to, p.before = make(map[lease.Owner]int64), free.Bytes
	}
	others := Promised{Free: p.before}
	for other, bytes := range p.to {
		if other != task {
			others.Bytes += bytes
		}
	}
	if err := need.Check(free, others); err != nil {
		return err
	}
	p.to[task] = need.HostBytes
	return nil
}

// End ends the promise to a task, if there is one.
func (p *Promises) End(task lease.Owner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.to, task)
}
