package executor

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
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
	record      Record    // as the journal has it
	looked      time.Time // when the run was started that was looked into last
	absence     absence   // of the process of the run that is supervised
	sight       sight     // of the run that is supervised

	health health

	// State shared with those who tell the owner something.
	mu      sync.Mutex
	phase   Phase
	made    time.Time // when the container was made, with a monotonic reading; zero: there is none yet
	known   bool      // the control plane has said that it has this assignment
	spared  bool      // it says that the task is over, and the container is too young for that
	view    view
	want    want
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
	t.recall()
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
	if err := t.remove(ctx); err != nil {
		return err
	}
	t.release()
	return nil
}

// untilEnded launches or takes over the container and supervises it. A nil result says
// that nobody waits for one.
func (t *task) untilEnded(ctx context.Context) (*Result, error) {
	if t.owed != nil {
		return t.owed, nil
	}
	if t.spec != nil {
		if launched, result, err := t.launch(ctx); !launched {
			return result, err
		}
	}
	return t.supervise(ctx)
}

// enter takes the task to the next phase. A step that the table does not allow is logged
// as the programming error it is, and taken.
func (t *task) enter(phase Phase) {
	if t.step(phase) {
		t.e.slotFreed()
		t.e.claimKick.Kick()
	}
}

// step reports whether the task has given up its slot.
func (t *task) step(phase Phase) (freed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.phase == phase {
		return false
	}
	if err := step(t.phase, phase); err != nil {
		t.log.Error("task state", zap.Error(err))
	}
	t.log.Debug("phase", zap.String("from", string(t.phase)), zap.String("to", string(phase)))
	freed = t.phase.holdsSlot() && !phase.holdsSlot()
	t.phase = phase
	return freed
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

// observe tells the owner what the control plane says of its task. Of a container that is
// too young to go by a fact it is to be asked again.
func (t *task) observe(v view) {
	t.mu.Lock()
	t.known = t.known || v.here
	if v.over == overDeleted {
		v.asked = t.known
	}
	spared := t.spared
	if t.spared = !v.counts(t.made, t.e.MinAge); t.spared {
		t.mu.Unlock()
		if !spared {
			t.log.Info("left alone so far: the container is too young to go by that", zap.String("over", v.over), zap.Duration("min_age", t.e.MinAge))
		}
		return
	}
	changed := v.status != t.view.status || v.over != t.view.over
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

// hasContainer notes that there is a container, and how old it is.
func (t *task) hasContainer(id string, age time.Duration) {
	t.container = id
	t.mu.Lock()
	t.made = time.Now().Add(-age)
	t.mu.Unlock()
}

// sparing tells whether the container is left alone for its youth only.
func (t *task) sparing() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.spared
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

// recall takes up what an earlier owner of this assignment noted.
func (t *task) recall() {
	record, ok, err := t.e.records.Get(t.id)
	if err != nil {
		t.log.Error("what was done for the task cannot be read", zap.Error(err))
	}
	if !ok || err != nil || record.Generation != t.generation {
		record = Record{Generation: t.generation}
	}
	t.record = record
}

// remember notes what the task did, in the journal too. A disk that cannot take it is
// reported.
func (t *task) remember(change func(*Record)) {
	change(&t.record)
	if err := t.e.records.Put(t.id, t.record); err != nil {
		t.log.Error("what was done for the task could not be stored durably", zap.Error(err))
	}
}

// rememberSleep notes that this run of the container is what falls asleep.
func (t *task) rememberSleep(c runtime.Container) {
	if at := t.record.PutToSleep; at == nil || !at.Equal(c.StartedAt) {
		t.remember(func(r *Record) { r.PutToSleep = &c.StartedAt })
	}
}

// sleeps tells whether the result is that of a run that was put to sleep, and which waits
// to be woken.
func (t *task) sleeps(r Result) bool {
	var started time.Time
	if r.StartedAt != nil {
		started = *r.StartedAt
	}
	return t.record.PutToSleep != nil && t.record.PutToSleep.Equal(started)
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
