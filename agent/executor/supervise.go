package executor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/crashpoint"
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
	defer t.health.forget()
	var pause time.Duration
	for ended := false; ; {
		c, err := t.inspect(ctx, rt)
		switch {
		case errors.Is(err, runtime.ErrNotFound):
			return t.withoutContainer(), nil
		case err != nil:
			return nil, err
		case c.State == runtime.StateCreated:
			if result, over, err := t.firstStart(ctx, rt, c); over || err != nil {
				return result, err
			}
			continue
		case !c.State.Alive():
			return t.conclude(c), nil
		case t.deserted(c):
			return t.withoutProcess(c), nil
		}
		if pause = disbelief(ended, pause); pause > 0 {
			if err := t.pause(ctx, pause); err != nil {
				return nil, err
			}
		}
		if ended, err = t.turn(ctx, rt, c); err != nil {
			return nil, err
		}
	}
}

// disbelief is the pause before another turn when the runtime has said that the container
// ended and an inspection that it did not, as during a removal that hangs.
func disbelief(ended bool, pause time.Duration) time.Duration {
	if !ended {
		return 0
	}
	return min(max(firstPause, 2*pause), lastPause)
}

// turn does what is to be done for a live container, and otherwise waits for a hint. It
// tells whether the runtime said that the container ended.
func (t *task) turn(ctx context.Context, rt runtime.Runtime, c runtime.Container) (ended bool, err error) {
	var timeUp <-chan time.Time
	if limit := t.supervision.Timeout; limit > 0 && !c.StartedAt.IsZero() {
		remaining := limit - time.Since(t.began(c.StartedAt))
		if remaining <= 0 && t.record.Verdict != protocol.ReasonTimeout {
			t.log.Warn("task reached its time limit, stopping it", zap.Duration("timeout", limit))
			t.remember(func(r *Record) { r.Verdict = protocol.ReasonTimeout })
			crashpoint.Reach("time limit: recorded")
		}
		timer := time.NewTimer(remaining)
		defer timer.Stop()
		timeUp = timer.C
	}
	want := t.wanted()
	if illness := t.illness(); illness != "" && want == wantRun && t.record.Verdict == "" {
		t.log.Warn("task is unhealthy, for which it wants to be ended", zap.String("why", illness))
		t.remember(func(r *Record) { r.Verdict, r.Why = protocol.ReasonUnhealthy, illness })
	}
	if want != wantRun || t.record.Verdict != "" {
		if want == wantSleep {
			t.rememberSleep(c)
			crashpoint.Reach("sleep: recorded")
		}
		t.health.end()
		return t.stop(ctx, rt, c)
	}
	if condemned, err := t.verify(ctx, rt, c); condemned || err != nil {
		return false, err
	}
	t.enter(Running)
	if t.viewNow().status == protocol.StatusWaking {
		t.reportAwake(ctx)
	}
	t.health.watch(ctx, t, c)
	return t.watch(ctx, rt, c, timeUp)
}

// watch waits until the container has ended, its time is up, or there is news.
func (t *task) watch(ctx context.Context, rt runtime.Runtime, c runtime.Container, timeUp <-chan time.Time) (ended bool, err error) {
	waiting, stop := context.WithCancel(ctx)
	var waiter sync.WaitGroup
	defer waiter.Wait()
	defer stop()
	gone := make(chan error, 1)
	waiter.Go(func() {
		_, err := rt.Wait(waiting, c.ID)
		gone <- err
	})
	select {
	case <-ctx.Done():
		return false, errDetached
	case <-t.news:
		return false, nil
	case <-timeUp:
		return false, nil
	case err := <-gone:
		if err != nil && ctx.Err() == nil {
			t.log.Debug("waiting for the container was interrupted", logging.ContainerID(c.ID), zap.Error(err))
			return false, t.pause(ctx, firstPause) // the daemon restarts: do not spin
		}
		return true, nil
	}
}

// confirmPause is the pause before the control plane is asked again whether a container
// that never ran is to run.
const confirmPause = 5 * time.Second

// firstStart starts a container that was made and left, once the control plane has said
// that the task is still this node's and to run: while no agent was here it may have been
// given to another. over: there is nothing to supervise, as the result says.
func (t *task) firstStart(ctx context.Context, rt runtime.Runtime, c runtime.Container) (result *Result, over bool, err error) {
	stored, err := t.e.Plane.Task(ctx, t.id)
	v := viewOf(stored, t.e.NodeID, t.generation)
	if err == nil {
		t.observe(v)
	} else if ctx.Err() == nil {
		t.log.Warn("container not started before the control plane confirms the task", logging.ContainerID(c.ID), zap.Error(err))
	}
	switch want := t.wanted(); want {
	case wantNothing:
		return nil, true, nil
	case wantSleep:
		t.rememberSleep(c)
		return neverStarted(c.ID), true, nil
	case wantStop:
		return neverStarted(c.ID), true, nil
	case wantRun:
	}
	if err != nil || v.over != "" || !runs(stored.Status) {
		return nil, false, t.pause(ctx, confirmPause)
	}
	err = t.start(ctx, rt, c.StartedAt)
	if failed, ok := errors.AsType[*taskcontainer.RefusedError](err); ok {
		return &Result{ContainerID: c.ID, Reason: failed.Reason, Message: failed.Error()}, true, nil
	}
	return nil, false, err
}

// runs tells whether a task in this status has a running container.
func runs(s protocol.TaskStatus) bool {
	return s == protocol.StatusRunning || s == protocol.StatusWaking
}

func neverStarted(containerID string) *Result {
	return &Result{ContainerID: containerID, Reason: protocol.ReasonStopped, Message: "stopped before it was started"}
}

// conclude is the result of a container that has ended.
func (t *task) conclude(c runtime.Container) *Result {
	want := t.wanted()
	if want == wantNothing {
		return nil
	}
	crashpoint.Reach("end: seen")
	result := ended(c)
	switch {
	case t.record.Verdict == protocol.ReasonTimeout:
		result = result.overruled(protocol.ReasonTimeout, fmt.Sprintf("ran longer than its time limit of %v", t.supervision.Timeout))
	case t.record.Verdict != "":
		result = result.overruled(t.record.Verdict, t.record.Why)
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
	for waits := false; ; {
		v := t.viewNow()
		if v.wakes() && t.e.beginWake(t) {
			if result, err := t.wake(ctx, rt); result != nil || err != nil {
				return result, err
			}
			return t.supervise(ctx)
		}
		if v.wakes() && !waits {
			waits = true
			t.log.Info("waiting to wake: as many tasks run as may at once", zap.Int("workers", t.e.Workers))
		}
		if !v.wakes() && (v.status != protocol.StatusAsleep || v.over != "") {
			return t.endedAsleep(ctx, rt) // whatever else it says
		}
		select {
		case <-ctx.Done():
			return nil, errDetached
		case <-t.news:
		}
	}
}

// endedAsleep is the result of a task that is not to sleep on: its stopped container is how
// it ended.
func (t *task) endedAsleep(ctx context.Context, rt runtime.Runtime) (*Result, error) {
	c, err := t.inspect(ctx, rt)
	switch {
	case errors.Is(err, runtime.ErrNotFound):
		return t.withoutContainer(), nil
	case err != nil:
		return nil, err
	}
	return t.conclude(c), nil
}

// wake starts the kept container again; the task has its slot. A result says why it could
// not: a card that somebody else was given meanwhile, for instance, as a task that is asleep
// holds none.
func (t *task) wake(ctx context.Context, rt runtime.Runtime) (*Result, error) {
	crashpoint.Reach("wake: decided")
	t.log.Info("waking", logging.ContainerID(t.container))
	c, err := t.inspect(ctx, rt)
	switch {
	case errors.Is(err, runtime.ErrNotFound):
		return t.withoutContainer(), nil
	case err != nil:
		return nil, err
	}
	t.container = c.ID
	err = t.start(ctx, rt, c.StartedAt)
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
	crashpoint.Reach("wake: reported")
	t.observe(viewOf(stored, t.e.NodeID, t.generation))
}
