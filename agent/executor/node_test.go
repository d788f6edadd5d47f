package executor_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/heteroflow/node-agent/agent/bootclock"
	"github.com/heteroflow/node-agent/agent/client"
	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/agent/connector"
	"github.com/heteroflow/node-agent/agent/executor"
	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/agent/pathfence"
	"github.com/heteroflow/node-agent/agent/pull"
	"github.com/heteroflow/node-agent/agent/reconcile"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	nodeID = "node-1"
	image  = "registry.example/app:v1"
	minAge = time.Minute
)

// node is a machine: a container daemon, a state directory, a control plane it reports to
// and, most of the time, an agent.
type node struct {
	t      testing.TB
	daemon *runtimefake.Daemon
	plane  *plane
	dir    string // of the agent's state
	share  string // what tasks may mount
	logs   *observer.ObservedLogs

	workers int
	devices executor.Devices   // nil: no cards
	procs   executor.Processes // nil: they cannot be seen
	space   space
	policy  executor.ReportPolicy
	drained atomic.Bool
	tenants bool   // images on the node are for those only who could pull them
	gated   bool   // the daemon has a container ready before its program runs
	agent   *agent // nil: none runs
	boot    string // names this run of the machine; empty: the kernel does not tell
	booted  time.Time
	relaxed atomic.Bool     // somebody else tells when to ask the plane
	wakes   map[string]int  // how often the plane had an assignment woken
	asked   map[string]bool // of which tasks the plane has asked for something

	mu   sync.Mutex
	hook func() // called at every moment at which the agent may be killed; nil: nothing is
}

// agent is the part of one that deals with tasks.
type agent struct {
	executor   *executor.Executor
	reconciler *reconcile.Reconciler
	runtime    *runtimefake.Runtime
	line       *line
	journal    *journal.Journal
	stop       context.CancelFunc
	loops      sync.WaitGroup
}

// onNode runs a test on a node with a running agent in a bubble of its own time, and
// checks afterwards what must hold on every node.
func onNode(t *testing.T, test func(n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		defer n.check() // also of a test that has failed: a bubble waits for its goroutines
		n.start()
		test(n)
	})
}

func newNode(t testing.TB) *node {
	t.Helper()
	n := &node{
		t: t, daemon: runtimefake.NewDaemon(), plane: newPlane(t), dir: t.TempDir(), share: t.TempDir(), workers: 4,
		boot: "first", booted: time.Now(),
		policy: executor.ReportPolicy{Attempts: 6, InitialBackoff: time.Second, MaxBackoff: 10 * time.Second, Budget: time.Minute},
	}
	return n
}

// check stops the agent and holds what no schedule of faults excuses.
func (n *node) check() {
	n.t.Helper()
	n.stop()
	if misuse := n.daemon.Misuse(); len(misuse) > 0 {
		n.t.Errorf("calls that act on nothing: %q", misuse)
	}
	if n.logs == nil {
		return
	}
	for _, entry := range n.logs.FilterMessage("task state").All() {
		n.t.Errorf("%v", entry.ContextMap())
	}
}

// start starts an agent over what is on the node.
func (n *node) start() {
	n.t.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	if n.logs != nil { // earlier agents' lines are kept
		for _, entry := range n.logs.All() {
			if err := core.Write(entry.Entry, entry.Context); err != nil {
				n.t.Fatal(err)
			}
		}
	}
	n.logs = logs
	log := zap.New(core)
	a := &agent{runtime: n.daemon.Connect(), line: newLine(n.plane)}
	a.runtime.Hook = func(op runtimefake.Op, _ runtimefake.Moment) {
		if op != runtimefake.OpProbe && op != runtimefake.OpList { // they change nothing, and have no end
			n.moment()
		}
	}
	a.line.hook = n.moment
	var err error
	if a.journal, err = journal.Open(n.dir, journal.Options{Log: log}); err != nil {
		n.t.Fatal(err)
	}
	plane, err := client.New(client.Options{
		BaseURL: "http://plane.example", NodeID: nodeID, Timeout: 30 * time.Second, Log: log,
		ReadKey:    func() (config.Secret, error) { return "key", nil },
		HTTPClient: &http.Client{Transport: a.line},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	conn := connector.New(connector.Options{
		Candidates: []runtime.Runtime{n.client(a.runtime)}, Labels: taskcontainer.OwnLabels(nodeID), Period: 5 * time.Second, Log: log,
		OnReturn: func() { a.reconciler.Kick() },
	})
	fence, err := pathfence.New(pathfence.Config{Allow: []string{n.share}, Deny: []string{n.dir}})
	if err != nil {
		n.t.Fatal(err)
	}
	a.executor, err = executor.New(executor.Options{
		NodeID: nodeID, Plane: plane, Journal: a.journal, Log: log,
		Runtime: conn.Runtime, RuntimeUsable: func() bool { _, err := conn.Usable(); return err == nil },
		Drained: n.drained.Load, BootClock: n.bootClock,
		Puller:  pull.New(pull.Config{Attempts: 3, Timeout: 5 * time.Minute, InactivityTimeout: time.Minute, Room: n.space.images, UnpackFactor: 2, TrustNodeCache: !n.tenants}, log),
		Builder: taskcontainer.Builder{Fence: fence, LogLimits: runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 2}},
		Devices: n.devices, Processes: n.procs, Free: n.space.of, Workers: n.workers, Poll: executor.PollPolicy{Period: 5 * time.Second, Relaxed: time.Minute, Relax: n.relaxed.Load},
		MinAge: minAge, Report: n.policy, LogTail: protocol.MaxLogTailBytes,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	a.reconciler = reconcile.New(reconcile.Options{
		NodeID: nodeID, Plane: plane, Executor: a.executor, Period: time.Minute,
		Runtime: conn.Usable, Ready: conn.Ready(), Log: log,
	})
	ctx, cancel := context.WithCancel(context.Background())
	a.stop, n.agent = cancel, a
	for _, run := range []func(context.Context){conn.Run, a.reconciler.Run, a.executor.Run} {
		a.loops.Go(func() { run(ctx) })
	}
}

// client is the agent's way to the daemon.
func (n *node) client(rt *runtimefake.Runtime) runtime.Runtime {
	if n.gated {
		return rt
	}
	return struct{ runtime.Runtime }{rt}
}

func (n *node) bootClock() (bootclock.Moment, bool) {
	return bootclock.Moment{Boot: n.boot, Up: time.Since(n.booted)}, n.boot != ""
}

// stop ends the agent in good order.
func (n *node) stop() {
	n.t.Helper()
	if n.agent == nil {
		return
	}
	n.agent.stop()
	n.agent.loops.Wait()
	if err := n.agent.journal.Close(); err != nil {
		n.t.Error(err)
	}
	n.agent = nil
}

func (n *node) restart() {
	n.t.Helper()
	n.stop()
	n.start()
}

// sever makes the agent as good as dead: nothing it does from now on reaches anybody, the
// disk included.
func (a *agent) sever() error {
	a.runtime.Sever()
	a.line.sever()
	a.stop()
	return a.journal.Close()
}

// kill ends the agent the way kill -9 does.
func (n *node) kill() {
	n.t.Helper()
	if err := n.agent.sever(); err != nil {
		n.t.Error(err)
	}
	n.agent.loops.Wait()
	n.agent = nil
}

func (n *node) moment() {
	n.mu.Lock()
	hook := n.hook
	n.mu.Unlock()
	if hook != nil {
		hook()
	}
}

// atMoments has hook called at every moment at which the agent may be killed.
func (n *node) atMoments(hook func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hook = hook
}

// until lets time pass until cond holds, and fails the test if it does not in time.
func (n *node) until(within time.Duration, what string, cond func() bool) {
	n.t.Helper()
	for deadline := time.Now().Add(within); !cond(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			n.dump()
			n.t.Fatalf("not within %v: %s", within, what)
		}
	}
}

func (n *node) dump() {
	n.t.Helper()
	for _, entry := range n.logs.All() {
		if entry.Level > zapcore.DebugLevel {
			n.t.Log(entry.Time.Format("15:04:05.000"), entry.Level, entry.Message, entry.ContextMap())
		}
	}
}

// ends lets time pass until the task has the status and the node has forgotten it.
func (n *node) ends(within time.Duration, id string, status protocol.TaskStatus) {
	n.t.Helper()
	n.until(within, id+" "+string(status)+" and nothing of it left", func() bool {
		return n.plane.status(id) == status && n.clean(id)
	})
}

// runs lets time pass until the task's container runs.
func (n *node) runs(id string) {
	n.t.Helper()
	n.until(2*time.Minute, id+" running", func() bool { return n.state(id) == runtime.StateRunning })
}

// state is what the task's container does; empty: there is none.
func (n *node) state(id string) runtime.State {
	for _, c := range n.daemon.Containers() {
		if c.Name == taskcontainer.Name(id) {
			return c.State
		}
	}
	return ""
}

// clean tells whether the node has forgotten the task.
func (n *node) clean(id string) bool { return n.state(id) == "" && !n.agent.executor.Owns(id) }

// starts counts how often the task's program was started, as one generation of it.
func (n *node) starts(id, generation string) int {
	count := 0
	for _, s := range n.daemon.Starts() {
		if s.Labels[taskcontainer.LabelTaskID] == id && s.Labels[taskcontainer.LabelGeneration] == generation {
			count++
		}
	}
	return count
}

// logged tells whether a line with these words was written.
func (n *node) logged(words string) bool {
	for _, entry := range n.logs.All() {
		if strings.Contains(entry.Message, words) {
			return true
		}
	}
	return false
}

// line is one agent's way to the plane. It takes time, and dies with the agent.
type line struct {
	plane   *plane
	hook    func()
	once    sync.Once
	severed chan struct{}
}

func newLine(p *plane) *line { return &line{plane: p, hook: func() {}, severed: make(chan struct{})} }

func (l *line) sever() { l.once.Do(func() { close(l.severed) }) }

var errLine = errors.New("connection reset by peer")

// RoundTrip carries one request to the plane and its answer back.
func (l *line) RoundTrip(req *http.Request) (*http.Response, error) {
	l.moment(req)
	if err := l.travel(req.Context()); err != nil {
		return nil, err
	}
	answer, lost := l.plane.serve(req)
	l.moment(req)
	if err := l.travel(req.Context()); err != nil {
		return nil, err
	}
	if lost {
		return nil, errLine
	}
	return answer, nil
}

// moment is one at which the agent may be killed: what only asks changes nothing.
func (l *line) moment(req *http.Request) {
	if req.Method != http.MethodGet {
		l.hook()
	}
}

func (l *line) travel(ctx context.Context) error {
	select {
	case <-l.severed:
		return errLine
	default:
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-l.severed:
		return errLine
	case <-time.After(5 * time.Millisecond):
		return nil
	}
}
