// Package executor runs the tasks of a node: it claims them by compare-and-set, launches
// their containers, supervises them, reports how they ended and cleans up.
//
// Each task has one owner, a goroutine that alone changes what is done for the task, from
// its claim or adoption until nothing is owed to the control plane and no container is
// left. Others only tell the owner what the control plane says of its task. Two loops feed
// the owners: claim finds new tasks, follow reads how the control plane's view of the
// owned ones changes. Run waits for them all.
//
// A container is removed only when its result has been delivered or the control plane has
// said that the task is over, gone or another node's. When the executor stops, containers
// stay as they are for the next agent to adopt.
package executor

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/bootclock"
	"github.com/heteroflow/node-agent/agent/client"
	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/agent/lease"
	"github.com/heteroflow/node-agent/agent/loop"
	"github.com/heteroflow/node-agent/agent/preflight"
	"github.com/heteroflow/node-agent/agent/pull"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// Plane is the part of the control plane's client the executor uses.
type Plane interface {
	Tasks(ctx context.Context, limit int, statuses ...protocol.TaskStatus) ([]protocol.Task, error)
	Task(ctx context.Context, id string) (protocol.Task, error)
	UpdateTask(ctx context.Context, id string, update protocol.TaskUpdate) (protocol.Task, error)
}

// Options make an Executor.
type Options struct {
	NodeID string
	Plane  Plane
	// Runtime is the selected container runtime. runtime.ErrUnavailable while there is
	// none.
	Runtime func() (runtime.Runtime, error)
	// RuntimeUsable reports whether the runtime answers now: nothing is claimed while it
	// does not.
	RuntimeUsable func() bool
	// Drained reports whether the node is to claim nothing new. It is asked before each
	// claim; what runs goes on.
	Drained func() bool
	Journal *journal.Journal
	Puller  *pull.Puller
	Builder taskcontainer.Builder
	Devices Devices // nil: the node has no cards to give
	// Processes are those of the machine that the containers are on; nil: they cannot be seen.
	Processes Processes
	// BootClock tells the time since the machine was started; false: the kernel does not.
	BootClock func() (bootclock.Moment, bool)
	// Free tells what is free on the host's file system that holds a directory; false:
	// that is not known, and refuses nothing.
	Free func(ctx context.Context, dir string) (preflight.Space, bool)
	Log  *zap.Logger

	Workers int // tasks that may run at once
	// MinAge is how old a container must be to go by a fact that nobody asked for: that its
	// task has ended elsewhere, is another node's, or was never seen by this agent.
	MinAge  time.Duration
	Poll    PollPolicy
	Report  ReportPolicy
	LogTail int64 // bytes of output sent with a result
}

// PollPolicy is how often the control plane is asked.
type PollPolicy struct {
	Period  time.Duration
	Relaxed time.Duration // while Relax says that somebody else tells when to ask
	Relax   func() bool
}

func (p PollPolicy) period() time.Duration {
	if p.Relax() {
		return p.Relaxed
	}
	return p.Period
}

// pause is how long to wait after a round that failed. It does not relax: who tells when to
// ask has done so, and will not again.
func (p PollPolicy) pause(err error, failures int, _ time.Duration) time.Duration {
	return client.Pause(err, failures, p.Period)
}

// ReportPolicy bounds the delivery of a result.
type ReportPolicy struct {
	Attempts       int
	InitialBackoff time.Duration
	MaxBackoff     time.Duration
	Budget         time.Duration // of all attempts together
}

// Record is what the journal keeps of a task from its claim on.
type Record struct {
	Generation int64 `json:"generation"`
	// Started is set before the container is first started: until then nothing of the
	// task has run, and it may be launched anew after a crash.
	Started bool `json:"started"`
	// Verdict is why the agent decided to end this run of it, and Why the words for that,
	// set before it acts on that.
	Verdict protocol.Reason `json:"verdict,omitempty"`
	Why     string          `json:"why,omitempty"`
	// Expect is what the container must turn out to have when it runs, set before it is
	// started; nil: nothing was to be looked at.
	Expect *taskcontainer.Expectation `json:"expect,omitempty"`
	// Verified is when the run was started that was looked at and found to have it.
	Verified *time.Time `json:"verified,omitempty"`
	// Run is the process of the run that was seen last; nil: none was, or it could not be told
	// from others.
	Run *Run `json:"run,omitempty"`
	// Begun is when the run began; nil: nothing counts from there, or the kernel does not
	// tell.
	Begun *Begun `json:"begun,omitempty"`
	// PutToSleep is when the run was started that was, or is to be, stopped to sleep; nil:
	// none. A stopped container of that run waits to be woken, one of another has ended.
	PutToSleep *time.Time `json:"put_to_sleep,omitempty"`
}

// Executor runs the tasks of a node.
type Executor struct {
	Options
	results *journal.Collection[Result]
	records *journal.Collection[Record]
	// recording keeps a record that a claim makes from being taken for the one before it.
	recording sync.Mutex
	leases    lease.Book         // who has which card
	shm       preflight.Promises // of the host's shared memory
	leftovers leftovers

	claimKick  loop.Kicker
	followKick loop.Kicker
	owners     sync.WaitGroup
	life       context.Context // of the owners: it ends when they are to let go
	detach     context.CancelFunc

	mu       sync.Mutex
	tasks    map[string]*task
	missing  map[string]int // consecutive 404s
	adopted  bool           // the first adoption is over: claims are allowed
	closing  bool           // nothing new is claimed ever again
	claiming bool           // a claim is on its way
	stopped  bool           // no task gets an owner any more
}

// New makes an executor and loads what an earlier agent left in the journal.
func New(opts Options) (*Executor, error) {
	results, err := journal.NewCollection[Result](opts.Journal, journal.Results, journal.Limits[Result]{})
	if err != nil {
		return nil, err
	}
	records, err := journal.NewCollection[Record](opts.Journal, journal.Tasks, recordLimits())
	if err != nil {
		return nil, err
	}
	e := &Executor{
		Options: opts, results: results, records: records,
		claimKick: loop.NewKicker(), followKick: loop.NewKicker(),
		tasks: make(map[string]*task), missing: make(map[string]int),
	}
	e.life, e.detach = context.WithCancel(context.Background())
	return e, nil
}

// recordLimits allow far more tasks than a node runs, asleep ones included. What is left of
// claims that somebody else won gives way when there are too many.
func recordLimits() journal.Limits[Record] {
	return journal.Limits[Record]{Max: 4096, Settled: func(r Record) bool { return !r.Started }}
}

// Run claims and follows tasks until ctx ends, then waits for the owners to let go of
// their containers. Reports that are on their way are finished within their own request.
func (e *Executor) Run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() {
		loop.Loop{Period: e.claimPeriod, Do: e.claimRound, Pause: e.Poll.pause, Kick: e.claimKick}.Run(ctx)
	})
	loops.Go(func() {
		loop.Loop{Period: e.followPeriod, Do: e.followRound, Pause: e.Poll.pause, Kick: e.followKick}.Run(ctx)
	})
	loops.Wait()
	e.mu.Lock()
	e.stopped = true
	e.mu.Unlock()
	e.detach()
	e.owners.Wait()
	e.Puller.Wait()
}

// PollTasks looks for new tasks at once.
func (e *Executor) PollTasks() { e.claimKick.Kick() }

// PollIntents reads at once what the control plane wants of the owned tasks.
func (e *Executor) PollIntents() { e.followKick.Kick() }

// AllowClaims ends the time after a start in which nothing is claimed because containers
// of an earlier agent may hold what a new task would be given.
func (e *Executor) AllowClaims() {
	e.mu.Lock()
	first := !e.adopted
	e.adopted = true
	e.mu.Unlock()
	if first {
		e.claimKick.Kick()
	}
}

// StopClaiming ends the claiming of new tasks for good, ahead of an orderly stop.
func (e *Executor) StopClaiming() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closing = true
}

// Owns reports whether the task has an owner.
func (e *Executor) Owns(taskID string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tasks[taskID] != nil
}

// Health lists what the probes of services found.
func (e *Executor) Health() []protocol.TaskHealth {
	var all []protocol.TaskHealth
	for _, t := range e.owned() {
		if h, ok := t.healthNow(); ok {
			all = append(all, h)
		}
	}
	return all
}

// Undelivered counts the results the control plane does not have yet.
func (e *Executor) Undelivered() int { return e.results.Len() }

// Retry tries again what could not be done: writing to the journal, delivering what is
// owed.
func (e *Executor) Retry() {
	if err := e.Journal.Flush(); err != nil {
		e.Log.Error("the state directory cannot be written: what is owed would not survive a restart", zap.Error(err))
	}
	for _, t := range e.owned() {
		t.nudge()
	}
}

func (e *Executor) owned() []*task {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make([]*task, 0, len(e.tasks))
	for _, t := range e.tasks {
		all = append(all, t)
	}
	return all
}

var (
	errOwned   = errors.New("the task is owned already")
	errStopped = errors.New("the executor is stopping")
)

// take gives a task its owner.
func (e *Executor) take(t *task) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return errStopped
	}
	if e.tasks[t.id] != nil {
		return errOwned
	}
	e.tasks[t.id] = t
	delete(e.missing, t.id)
	e.owners.Go(func() { t.own(e.life) })
	return nil
}

// release ends the ownership of a task.
func (e *Executor) release(t *task) {
	e.shm.End(t.owner())
	e.mu.Lock()
	delete(e.tasks, t.id)
	delete(e.missing, t.id)
	e.mu.Unlock()
	e.slotFreed()
	e.claimKick.Kick()
}
