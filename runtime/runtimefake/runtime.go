package runtimefake

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/heteroflow/node-agent/runtime"
)

// Moment is when in a call its client may be killed.
type Moment string

// The moments of a call.
const (
	Before Moment = "before" // nothing has reached the daemon
	After  Moment = "after"  // the daemon has done it, the answer is on its way
)

// Runtime is one client of a daemon.
type Runtime struct {
	// Hook, if set, is called at each moment of each call. It may cut the client.
	Hook func(op Op, m Moment)

	d       *Daemon
	once    sync.Once
	severed chan struct{}
}

var _ runtime.Runtime = (*Runtime)(nil)

// Connect makes a client of the daemon.
func (d *Daemon) Connect() *Runtime { return &Runtime{d: d, severed: make(chan struct{})} }

// Sever cuts the client off for good, as its death does: nothing it asks for from now on
// happens, and it hears no more answers.
func (r *Runtime) Sever() { r.once.Do(func() { close(r.severed) }) }

var errSevered = fmt.Errorf("%w: this client is dead", runtime.ErrUnavailable)

func (r *Runtime) hook(op Op, m Moment) {
	if r.Hook != nil {
		r.Hook(op, m)
	}
}

func (r *Runtime) connected() error {
	if isClosed(r.severed) {
		return errSevered
	}
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if r.d.away {
		return fmt.Errorf("%w: connection refused", runtime.ErrUnavailable)
	}
	return nil
}

// Name is Docker's, so that reports are what they are with a real one.
func (r *Runtime) Name() runtime.Name { return runtime.Docker }

// Probe answers if the daemon is there.
func (r *Runtime) Probe(ctx context.Context) (runtime.Info, error) {
	err := r.call(ctx, OpProbe, func() error { return nil })
	if err != nil {
		return runtime.Info{}, err
	}
	return runtime.Info{Version: "1.0", APIVersion: "1.44", RootDir: "/var/lib/fake", CgroupVersion: 2}, nil
}

// Close cuts nothing: the connection belongs to the test.
func (r *Runtime) Close() error { return nil }

var idPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

// misused remembers a call that no client should make.
func (r *Runtime) misused(call string) {
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	r.d.misuse = append(r.d.misuse, call)
}

// on is a call about one container, by id or, for Inspect, by name.
func (r *Runtime) on(ctx context.Context, op Op, which string, effect func(*container) error) error {
	if !idPattern.MatchString(which) && (op != OpInspect || which == "") {
		r.misused(fmt.Sprintf("%s of %q", op, which))
		return fmt.Errorf("%s: %w: id %q", op, runtime.ErrInvalid, which)
	}
	return r.call(ctx, op, func() error {
		c := r.d.find(which)
		if c == nil {
			return fmt.Errorf("%s: %w: no such container: %s", op, runtime.ErrNotFound, which)
		}
		return effect(c)
	})
}

// Create ensures a stopped container of this spec exists.
func (r *Runtime) Create(ctx context.Context, spec runtime.Spec) (made runtime.Container, err error) {
	if err := spec.Validate(); err != nil {
		r.misused(fmt.Sprintf("%s of %q: %v", OpCreate, spec.Name, err))
		return made, err
	}
	err = r.call(ctx, OpCreate, func() error {
		c := r.d.find(spec.Name)
		switch {
		case c == nil:
			if _, ok := r.d.local[normal(spec.Image)]; !ok {
				return fmt.Errorf("create: %w: no such image: %s", runtime.ErrNotFound, spec.Image)
			}
			c = r.d.add(spec)
		case c.labels[runtime.LabelSpecHash] != spec.Hash():
			return fmt.Errorf("create: %w: the name %s is in use", runtime.ErrConflict, spec.Name)
		}
		made = c.describe()
		return nil
	})
	return made, err
}

// Start ensures the container has been started.
func (r *Runtime) Start(ctx context.Context, id string) error {
	return r.StartIf(ctx, id, func(int) error { return nil })
}

// StartIf is Start with a look into the container first.
func (r *Runtime) StartIf(ctx context.Context, id string, ready func(pid int) error) error {
	return r.on(ctx, OpStart, id, func(c *container) error {
		switch {
		case c.forced != "" && c.forced != runtime.StateRunning:
			return fmt.Errorf("start: %w: the container is %s", runtime.ErrConflict, c.forced)
		case c.running:
			return nil
		case c.program.StartError != "":
			c.startError = c.program.StartError
			return fmt.Errorf("start: %w: %s", runtime.ErrStartFailed, c.startError)
		}
		if err := ready(c.program.PID); err != nil {
			c.startError = err.Error()
			return fmt.Errorf("start: %w: %w", runtime.ErrStartFailed, err)
		}
		r.d.run(c)
		return nil
	})
}

// Inspect returns everything known of one container.
func (r *Runtime) Inspect(ctx context.Context, which string) (found runtime.Container, err error) {
	err = r.on(ctx, OpInspect, which, func(c *container) error {
		found = c.describe()
		return nil
	})
	return found, err
}

// List returns the containers that carry the labels.
func (r *Runtime) List(ctx context.Context, labels map[string]string) (found []runtime.Container, err error) {
	err = r.call(ctx, OpList, func() error {
		for _, c := range r.d.containers {
			if carries(c.labels, labels) {
				found = append(found, c.summary())
			}
		}
		return nil
	})
	return found, err
}

func carries(all, wanted map[string]string) bool {
	for k, v := range wanted {
		if got, ok := all[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// Logs returns the end of what the program printed.
func (r *Runtime) Logs(ctx context.Context, id string, opts runtime.LogOptions) (out []byte, err error) {
	err = r.on(ctx, OpLogs, id, func(c *container) error {
		out = []byte(c.output[max(0, int64(len(c.output))-opts.TailBytes):])
		return nil
	})
	return out, err
}

// Remove kills and removes the container.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	return r.on(ctx, OpRemove, id, func(c *container) error {
		if c.running && c.program.Unkillable {
			return fmt.Errorf("remove: %w: its process does not die", runtime.ErrConflict)
		}
		if r.d.OnRemove != nil {
			r.d.OnRemove(c.describe())
		}
		r.d.drop(c)
		return nil
	})
}

// pause waits for d, or until something ends the call.
func (r *Runtime) pause(ctx context.Context, d time.Duration, other <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-r.severed:
		return errSevered
	case <-other:
	case <-time.After(d):
	}
	return nil
}
