// Package connector finds the container runtime a node uses and watches it: which daemon
// was chosen and why, whether it answers now, and which of this node's containers it has.
//
// A runtime that is absent is a state to be reported, not an error to die of: the agent
// starts without one and picks it up when it appears. Once chosen, a runtime stays chosen
// until the agent restarts, because the node's containers live in it.
//
// Run is one loop in its caller's goroutine.
package connector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/loop"
	"github.com/heteroflow/node-agent/runtime"
)

// Options make a Connector.
type Options struct {
	// Candidates are the runtimes that may be used, the preferred one first.
	Candidates []runtime.Runtime
	Labels     map[string]string // of this node's containers
	Period     time.Duration     // between two looks
	Log        *zap.Logger
	// OnReturn, if set, is called when the runtime answers after it did not, the first
	// time included.
	OnReturn func()
}

// Status is what was found in the last look.
type Status struct {
	Name      runtime.Name // of the chosen runtime, or of the preferred one while none answers; empty before the first look
	Chosen    bool
	Why       string // why this one
	Info      runtime.Info
	Available bool  // it answered
	Err       error // why it did not
	// Containers are this node's containers; nil unless Available.
	Containers []runtime.Container
}

// Connector watches the node's runtime.
type Connector struct {
	opts Options

	mu     sync.Mutex
	chosen runtime.Runtime
	status Status
	ready  chan struct{} // closed after the first look
}

// New makes a connector over at least one candidate.
func New(opts Options) *Connector {
	return &Connector{opts: opts, ready: make(chan struct{})}
}

// Run looks at the runtime once a period until ctx ends.
func (c *Connector) Run(ctx context.Context) {
	loop.Loop{Period: func() time.Duration { return c.opts.Period }, Do: c.look, Prompt: true}.Run(ctx)
}

// Ready is closed after the first look.
func (c *Connector) Ready() <-chan struct{} { return c.ready }

// Runtime returns the chosen runtime. runtime.ErrUnavailable while none has answered yet;
// once one has it is returned even while it is away, for its own calls say so.
func (c *Connector) Runtime() (runtime.Runtime, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chosen == nil {
		return nil, c.unavailable()
	}
	return c.chosen, nil
}

// Usable returns the chosen runtime if it answered in the last look.
func (c *Connector) Usable() (runtime.Runtime, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.status.Available {
		return nil, c.unavailable()
	}
	return c.chosen, nil
}

// unavailable says why there is no runtime to use.
func (c *Connector) unavailable() error {
	if c.status.Err == nil {
		return fmt.Errorf("%w: not looked at yet", runtime.ErrUnavailable)
	}
	return fmt.Errorf("%w: %w", runtime.ErrUnavailable, c.status.Err)
}

// Status returns what was found in the last look.
func (c *Connector) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// Close lets go of all candidates.
func (c *Connector) Close() error {
	var errs []error
	for _, rt := range c.opts.Candidates {
		errs = append(errs, rt.Close())
	}
	return errors.Join(errs...)
}

// look stores what it finds, unless the agent's stop cuts it short: that says nothing of the
// runtime.
func (c *Connector) look(ctx context.Context) error {
	status, rt := c.find(ctx)
	if status.Available {
		status.Containers, status.Err = rt.List(ctx, c.opts.Labels)
		status.Available = status.Err == nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.store(status, rt)
	return status.Err
}

// find asks the chosen runtime, or each candidate until one answers.
func (c *Connector) find(ctx context.Context) (Status, runtime.Runtime) {
	c.mu.Lock()
	chosen, before := c.chosen, c.status
	c.mu.Unlock()
	if chosen != nil {
		info, err := chosen.Probe(ctx)
		if err != nil {
			info = before.Info
		}
		return Status{Name: chosen.Name(), Chosen: true, Why: before.Why, Info: info, Available: err == nil, Err: err}, chosen
	}
	status := Status{Name: c.opts.Candidates[0].Name()}
	var errs []error
	for i, rt := range c.opts.Candidates {
		info, err := rt.Probe(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", rt.Name(), err))
			continue
		}
		why := "configured"
		if len(c.opts.Candidates) > 1 {
			why = "preferred, and it answers"
			if i > 0 {
				why = fmt.Sprintf("it answers, and %v", errors.Join(errs...))
			}
		}
		return Status{Name: rt.Name(), Chosen: true, Why: why, Info: info, Available: true}, rt
	}
	status.Err = errors.Join(errs...)
	return status, nil
}

func (c *Connector) store(status Status, rt runtime.Runtime) {
	c.mu.Lock()
	before := c.status
	c.status = status
	if status.Chosen {
		c.chosen = rt
	}
	first := before.Name == ""
	c.mu.Unlock()
	if first {
		close(c.ready)
	}
	log := c.opts.Log.With(logging.Runtime(status.Name))
	switch {
	case status.Available && !before.Available:
		log.Info("container runtime answers", zap.String("version", status.Info.Version), zap.String("api_version", status.Info.APIVersion), zap.Bool("cdi", status.Info.CDI), zap.String("chosen_because", status.Why))
		if c.opts.OnReturn != nil {
			c.opts.OnReturn()
		}
	case !status.Available && (before.Available || first):
		log.Error("container runtime does not answer: nothing can be started until it does", zap.Error(status.Err))
	}
}
