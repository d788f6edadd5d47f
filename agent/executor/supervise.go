package executor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/probe"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// supervise keeps a container going until it has ended or is to end, and returns its
// result; nil: nobody waits for one. Each turn looks at the container afresh: inspect is
// the truth, and all that wakes the loop is a hint to look.
func (t *task) supervise(ctx context.Context) (*Result, error) {
	rt, err := t.runtime(ctx)
	if err != nil {
		return nil, err
	}
	for {
		c, err := t.inspect(ctx, rt)
		switch {
		case errors.Is(err, runtime.ErrNotFound):
			return t.withoutContainer(), nil
		case err != nil:
			return nil, err
		case c.State == runtime.StateCreated:
			if result, err := t.firstStart(ctx, rt, c); result != nil || err != nil {
				return result, err
			}
			continue
		case !c.State.Alive():
			return t.conclude(c), nil
		}
		if err := t.turn(ctx, rt, c); err != nil {
			return nil, err
		}
	}
}

// turn does what is to be done for a live container, and otherwise waits for a hint.
func (t *task) turn(ctx context.Context, rt runtime.Runtime, c runtime.Container) error {
	var left <-chan time.Time
	if t.supervision.Timeout > 0 {
		remaining := time.Until(c.StartedAt.Add(t.supervision.Timeout))
		if remaining <= 0 && t.verdict() != protocol.ReasonTimeout {
			t.log.Warn("task reached its time limit, stopping it", zap.Duration("timeout", t.supervision.Timeout))
			t.remember(func(r *Record) { r.Verdict = protocol.ReasonTimeout })
		}
		timer := time.NewTimer(remaining)
		defer timer.Stop()
		left = timer.C
	}
	if t.wanted() != wantRun || t.verdict() != "" {
		return t.stop(ctx, rt, c)
	}
	t.enter(Running)
	if t.viewNow().status == protocol.StatusWaking {
		t.reportAwake(ctx)
	}
	return t.watch(ctx, rt, c, left)
}

// watch waits until the container may have ended, its time is up, or there is news.
func (t *task) watch(ctx context.Context, rt runtime.Runtime, c runtime.Container, timeUp <-chan time.Time) error {
	watching, stop := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer stop()
	gone := make(chan error, 1)
	watchers.Go(func() {
		_, err := rt.Wait(watching, c.ID)
		gone <- err
	})
	watchers.Go(func() { t.probe(watching, c) })
	select {
	case <-ctx.Done():
		return errDetached
	case <-t.news:
	case <-timeUp:
	case err := <-gone:
		if err != nil && ctx.Err() == nil {
			t.log.Debug("waiting for the container was interrupted", logging.ContainerID(c.ID), zap.Error(err))
			return t.pause(ctx, firstPause) // the daemon restarts: do not spin
		}
	}
	return nil
}

// probe watches the service's health, if it has a check.
func (t *task) probe(ctx context.Context, c runtime.Container) {
	check := t.supervision.Health
	if check == nil {
		return
	}
	host := c.IP
	switch {
	case t.supervision.Network == protocol.NetworkHost:
		host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case !host.IsValid():
		t.setHealth(protocol.TaskHealth{State: protocol.HealthUnknown, Message: fmt.Sprintf("the container has no address to probe: its network is %s", t.supervision.Network)})
		return
	}
	known, _ := t.healthNow()
	probe.Prober{Check: *check, Host: host, Known: known, Report: t.setHealth}.Run(ctx)
}

// firstStart starts a container that an earlier agent made and left.
func (t *task) firstStart(ctx context.Context, rt runtime.Runtime, c runtime.Container) (*Result, error) {
	if want := t.wanted(); want == wantNothing {
		return nil, nil
	} else if want == wantStop {
		return &Result{ContainerID: c.ID, Reason: protocol.ReasonStopped, Message: "stopped before it was started"}, nil
	}
	err := t.start(ctx, rt)
	if failed, ok := errors.AsType[*taskcontainer.RefusedError](err); ok {
		return &Result{ContainerID: c.ID, Reason: failed.Reason, Message: failed.Error()}, nil
	}
	return nil, err
}

// conclude is the result of a container that has ended.
func (t *task) conclude(c runtime.Container) *Result {
	want := t.wanted()
	if want == wantNothing {
		return nil
	}
	result := ended(c)
	switch {
	case t.verdict() == protocol.ReasonTimeout:
		result = result.overruled(protocol.ReasonTimeout, fmt.Sprintf("ran longer than its time limit of %v", t.supervision.Timeout))
	case want == wantStop:
		result = result.overruled(protocol.ReasonStopped, "stopped on request")
	}
	t.log.Info("container ended", logging.ContainerID(c.ID), logging.Reason(result.Reason), logging.ExitCode(result.ExitCode), zap.Boolp("oom_killed", result.OOMKilled))
	return &result
}

// withoutContainer is the result of a task whose container somebody else removed.
func (t *task) withoutContainer() *Result {
	if t.wanted() == wantNothing {
		return nil
	}
	t.log.Error("the container is gone: it was removed by somebody else", logging.ContainerID(t.container))
	result := Result{ContainerID: t.container}.overruled(protocol.ReasonContainerLost, "the container was removed behind the agent's back")
	return &result
}

// sleepUntilEnded keeps the stopped container until the control plane wants something of
// it, wakes it if asked to and supervises it again. A nil result says that nobody waits
// for one.
func (t *task) sleepUntilEnded(ctx context.Context) (*Result, error) {
	t.enter(Asleep)
	t.log.Info("asleep; the container is kept", logging.ContainerID(t.container))
	rt, err := t.runtime(ctx)
	if err != nil {
		return nil, err
	}
	for {
		v := t.viewNow()
		if v.status == protocol.StatusWaking && v.over == "" {
			if result, err := t.wake(ctx, rt); result != nil || err != nil {
				return result, err
			}
			return t.supervise(ctx)
		}
		if v.status != protocol.StatusAsleep || v.over != "" {
			// Whatever else it says, a stopped container is how the task ended.
			c, err := t.inspect(ctx, rt)
			switch {
			case errors.Is(err, runtime.ErrNotFound):
				return t.withoutContainer(), nil
			case err != nil:
				return nil, err
			}
			return t.conclude(c), nil
		}
		select {
		case <-ctx.Done():
			return nil, errDetached
		case <-t.news:
		}
	}
}

// wake starts the kept container again. A result says why it could not.
func (t *task) wake(ctx context.Context, rt runtime.Runtime) (*Result, error) {
	t.enter(Waking)
	t.log.Info("waking", logging.ContainerID(t.container))
	c, err := t.inspect(ctx, rt)
	switch {
	case errors.Is(err, runtime.ErrNotFound):
		return t.withoutContainer(), nil
	case err != nil:
		return nil, err
	}
	t.container = c.ID
	err = t.start(ctx, rt)
	if failed, ok := errors.AsType[*taskcontainer.RefusedError](err); ok {
		return &Result{ContainerID: t.container, Reason: failed.Reason, Message: failed.Error()}, nil
	}
	if ctx.Err() != nil {
		return nil, errDetached
	}
	return nil, err
}

// reportAwake tells the control plane that the container runs again. If that is not
// delivered, the next look at the task finds it waking still and tells it again.
func (t *task) reportAwake(ctx context.Context) {
	update := protocol.TaskUpdate{FromStatus: protocol.StatusWaking, Status: protocol.StatusRunning, Generation: &t.generation, ContainerID: t.container}
	stored, err := t.e.Plane.UpdateTask(ctx, t.id, update)
	if err != nil {
		t.log.Warn("could not report that the task is awake, trying again", zap.Error(err))
		return
	}
	t.observe(viewOf(stored, t.e.NodeID, t.generation))
}
