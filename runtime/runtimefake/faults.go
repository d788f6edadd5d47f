package runtimefake

import (
	"context"
	"fmt"
	"time"

	"github.com/heteroflow/node-agent/runtime"
)

// Op is a method of runtime.Runtime.
type Op string

// The methods in which faults can be put.
const (
	OpProbe   Op = "probe"
	OpImage   Op = "image"
	OpPull    Op = "pull"
	OpCanPull Op = "can pull"
	OpCreate  Op = "create"
	OpStart   Op = "start"
	OpWait    Op = "wait"
	OpStop    Op = "stop"
	OpInspect Op = "inspect"
	OpList    Op = "list"
	OpLogs    Op = "logs"
	OpRemove  Op = "remove"
)

// Fault is a way in which calls go wrong.
type Fault struct {
	Op    Op
	Times int   // how many calls, those that come next
	Err   error // what they return; nil: runtime.ErrUnavailable
	// Applied: the call has its effect, only its answer is lost.
	Applied bool
	// Hangs: no answer comes, for as long as a client waits for one.
	Hangs bool
}

// hangLimit is how long a client waits for an answer.
const hangLimit = 30 * time.Second

type fault struct {
	Fault
	left int
}

// Inject makes calls go wrong. Faults of one method act one after another.
func (d *Daemon) Inject(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, &fault{f, f.Times})
}

// Heal ends all faults.
func (d *Daemon) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = nil
}

// RemoveImage takes a local image away, as somebody's prune does. It reports whether there
// was one.
func (d *Daemon) RemoveImage(ref string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, there := d.local[normal(ref)]
	delete(d.local, normal(ref))
	return there
}

// nextFault counts a call and takes the fault for it; nil: it goes right.
func (d *Daemon) nextFault(op Op) *Fault {
	d.calls[op]++
	for _, f := range d.faults {
		if f.Op == op && f.left > 0 {
			f.left--
			return &f.Fault
		}
	}
	return nil
}

// call is the way every call takes: the connection, the faults, half of the latency, the
// effect under the daemon's lock, the other half.
func (r *Runtime) call(ctx context.Context, op Op, effect func() error) error {
	r.hook(op, Before)
	if err := r.travel(ctx); err != nil {
		return err
	}
	r.d.mu.Lock()
	f := r.d.nextFault(op)
	r.d.mu.Unlock()
	if f != nil && f.Hangs {
		return hang(ctx, op)
	}
	if f != nil && !f.Applied {
		return f.err(op)
	}
	r.d.mu.Lock()
	err := effect()
	r.d.mu.Unlock()
	r.hook(op, After)
	if f != nil {
		return f.err(op)
	}
	if lost := r.travel(ctx); lost != nil {
		return lost
	}
	return err
}

func (f *Fault) err(op Op) error {
	if f.Err == nil {
		return fmt.Errorf("%s: %w: EOF", op, runtime.ErrUnavailable)
	}
	return fmt.Errorf("%s: %w", op, f.Err)
}

func hang(ctx context.Context, op Op) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(hangLimit):
		return fmt.Errorf("%s: %w: no answer for %v", op, runtime.ErrUnavailable, hangLimit)
	}
}

// travel is one way of a call: it takes time, and fails when there is no daemon at the
// other end or no client at this one.
func (r *Runtime) travel(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.severed:
		return errSevered
	case <-time.After(Latency / 2):
	}
	if err := r.connected(); err != nil {
		return err
	}
	return ctx.Err()
}
