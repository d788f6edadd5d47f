package executor

import (
	"context"
	"errors"
	"sync"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
)

// task is one assignment of a task to this node, with its owner.
type task struct {
	// Configuration: never changes.
	id         string
	generation int64
	spec       *protocol.Task // to launch it from; nil: its container exists
	owed       *Result        // left by an earlier agent; nil: none

	// Dependencies: never change.
	e   *Executor
	log *zap.Logger

	// State of the owner alone.
	container   string // id; empty: none known
	supervision taskcontainer.Supervision

	// State shared with those who tell the owner something.
	mu      sync.Mutex
	phase   Phase
	view    view
	want    want
	health  protocol.TaskHealth
	abandon context.CancelCauseFunc // ends a launch; nil when none is under way
	news    chan struct{}           // the view changed, or a delivery is to be tried again
}

func (e *Executor) newTask(id string, generation int64, phase Phase) *task {
	return &task{
		id: id, generation: generation, e: e, phase: phase,
		log:  e.Log.With(logging.TaskID(id), logging.Generation(generation)),
		view: view{status: protocol.StatusRunning},
		news: make(chan struct{}, 1),
	}
}

var (
	// errDetached: the executor stops; the container stays for the next agent.
	errDetached = errors.New("the agent is stopping")
	// errUnwanted: the control plane does not want the task launched any more.
	errUnwanted = errors.New("the task is not wanted any more")
)

// own is the life of the owner.
func (t *task) own(ctx context.Context) {
	defer t.e.release(t)
	err := t.live(ctx)
	if err != nil && ctx.Err() == nil {
		t.log.Error("task given up; reconciliation takes it from here", zap.Error(err))
	}
}

// live takes the task to its end. An error leaves everything as it is.
func (t *task) live(ctx context.Context) error {
	result, err := t.untilEnded(ctx)
	for err == nil && result != nil {
		var again bool
		if again, err = t.settle(ctx, *result); err == nil && again {
			result, err = t.sleepUntilEnded(ctx)
		} else {
			result = nil
		}
	}
	if err != nil {
		return err
	}
	return t.remove(ctx)
}

// untilEnded launches or takes over the container and supervises it. A nil result says
// that nobody waits for one.
func (t *task) untilEnded(ctx context.Context) (*Result, error) {
	if t.owed != nil {
		return t.owed, nil
	}
	if t.spec != nil {
		if running, result, err := t.launch(ctx); !running {
			return result, err
		}
	}
	return t.supervise(ctx)
}

// enter takes the task to the next phase. A step that the table does not allow is logged
// as the programming error it is, and taken.
func (t *task) enter(phase Phase) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase == phase {
		return
	}
	if err := step(t.phase, phase); err != nil {
		t.log.Error("task state", zap.Error(err))
	}
	t.log.Debug("phase", zap.String("from", string(t.phase)), zap.String("to", string(phase)))
	t.phase = phase
}

func (t *task) phaseNow() Phase {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase
}

func (t *task) wanted() want {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.want
}

func (t *task) viewNow() view {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.view
}

// observe tells the owner what the control plane says of its task.
func (t *task) observe(v view) {
	t.mu.Lock()
	changed := v != t.view
	t.view = v
	t.want = v.wants(t.want)
	if t.abandon != nil && t.want.ends() {
		t.abandon(errUnwanted)
	}
	t.mu.Unlock()
	if changed {
		t.log.Info("the control plane's view changed", logging.Status(v.status), zap.String("over", v.over))
	}
	if changed || v.demands() {
		t.nudge()
	}
}

// abandonable makes cancel end the launch when the task is not wanted any more; nil ends
// that.
func (t *task) abandonable(cancel context.CancelCauseFunc) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.abandon = cancel
	if cancel != nil && t.want.ends() {
		cancel(errUnwanted)
	}
}

// nudge makes the owner look again at what is wanted or owed.
func (t *task) nudge() {
	select {
	case t.news <- struct{}{}:
	default:
	}
}

func (t *task) setHealth(h protocol.TaskHealth) {
	h.TaskID = t.id
	t.mu.Lock()
	before := t.health.State
	t.health = h
	t.mu.Unlock()
	if before != h.State {
		t.log.Info("health changed", zap.String("health", string(h.State)), zap.String("message", h.Message))
	}
}

// forgetHealth drops what was known of an earlier run.
func (t *task) forgetHealth() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.health = protocol.TaskHealth{}
}

func (t *task) healthNow() (protocol.TaskHealth, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.health, t.health.TaskID != ""
}

// remember stores what the task did in the journal. A disk that cannot take it is
// reported; the record is kept in memory then.
func (t *task) remember(change func(*Record)) {
	record, _, err := t.e.records.Get(t.id)
	if err == nil {
		if record.Generation != t.generation {
			record = Record{Generation: t.generation}
		}
		change(&record)
		err = t.e.records.Put(t.id, record)
	}
	if err != nil {
		t.log.Error("what was done for the task could not be stored durably", zap.Error(err))
	}
}

// verdict is why the agent decided to end the task, if it did.
func (t *task) verdict() protocol.Reason {
	record, ok, err := t.e.records.Get(t.id)
	if err != nil || !ok || record.Generation != t.generation {
		return ""
	}
	return record.Verdict
}

// storeResult makes the result survive a crash. One that cannot be stored is delivered
// all the same.
func (t *task) storeResult(r Result) {
	switch err := t.e.results.Put(t.id, r); {
	case errors.Is(err, journal.ErrNotDurable):
		t.log.Warn("result is kept in memory only until the disk takes it", zap.Error(err))
	case err != nil:
		t.log.Error("result could not be stored; it is lost if the agent dies before it is delivered", zap.Error(err))
	}
}
