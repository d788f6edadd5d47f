package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/heteroflow/node-agent/agent/client"
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
)

// plane answers lists and questions about a task; err stands for either.
type plane struct {
	listed  []protocol.Task
	stored  map[string]protocol.Task
	listErr error
	errs    map[string]error // by task
	asked   []string
}

func (p *plane) Tasks(_ context.Context, _ int, statuses ...protocol.TaskStatus) ([]protocol.Task, error) {
	if slices.Contains(statuses, protocol.StatusScheduled) || slices.Contains(statuses, protocol.StatusAsleep) {
		return nil, fmt.Errorf("tasks without a container asked for: %v", statuses)
	}
	return p.listed, p.listErr
}

func (p *plane) Task(_ context.Context, id string) (protocol.Task, error) {
	p.asked = append(p.asked, id)
	if err := p.errs[id]; err != nil {
		return protocol.Task{}, err
	}
	task, ok := p.stored[id]
	if !ok {
		return protocol.Task{}, fmt.Errorf("read task %s: %w", id, client.ErrNotFound)
	}
	return task, nil
}

// executor notes what it is told, in order.
type executor struct {
	mu        sync.Mutex
	calls     []string
	owned     map[string]bool
	resumable map[string]bool
	fails     map[string]error // by call
}

func (e *executor) note(call string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.calls = append(e.calls, call)
	return e.fails[call]
}

// told are the calls about tasks and containers so far.
func (e *executor) told() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.calls), func(call string) bool {
		return slices.Contains([]string{"retry", "allow claims", "adopt results", "sweep"}, call)
	})
}

func (e *executor) count(call string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, c := range e.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (e *executor) Owns(id string) bool             { return e.owned[id] }
func (e *executor) Adopt(c runtime.Container) error { return e.note("adopt " + c.Name) }
func (e *executor) AdoptResults() error             { return e.note("adopt results") }
func (e *executor) Lost(task protocol.Task) error   { return e.note("lost " + task.ID) }
func (e *executor) Retry()                          { _ = e.note("retry") }
func (e *executor) AllowClaims()                    { _ = e.note("allow claims") }
func (e *executor) Forget(context.Context) error    { return nil }
func (e *executor) Resume(t protocol.Task) (bool, error) {
	if !e.resumable[t.ID] {
		return false, e.fails["resume "+t.ID]
	}
	return true, e.note("resume " + t.ID)
}

// scene is a node about to be reconciled.
type scene struct {
	daemon   *runtimefake.Daemon
	plane    *plane
	executor *executor
	away     error
	ready    chan struct{}
	logs     *observer.ObservedLogs
	it       *reconcile.Reconciler
}

func newScene() *scene {
	s := &scene{
		daemon: runtimefake.NewDaemon(), ready: make(chan struct{}),
		plane:    &plane{stored: make(map[string]protocol.Task), errs: make(map[string]error)},
		executor: &executor{owned: make(map[string]bool), resumable: make(map[string]bool), fails: make(map[string]error)},
	}
	core, logs := observer.New(zapcore.ErrorLevel)
	s.logs = logs
	rt := sweeping{s.daemon.Connect(), s.executor}
	s.it = reconcile.New(reconcile.Options{
		NodeID: nodeID, Plane: s.plane, Executor: s.executor, Period: time.Minute, Ready: s.ready, Log: zap.New(core),
		Runtime: func() (runtime.Runtime, error) { return rt, s.away },
	})
	return s
}

// sweeping is a runtime in which a crash has left something that cannot be removed.
type sweeping struct {
	runtime.Runtime

	executor *executor
}

func (s sweeping) Sweep(_ context.Context, labels map[string]string) error {
	if labels[taskcontainer.LabelNodeID] != nodeID {
		return s.executor.note("sweep of what is not its own")
	}
	return errors.Join(errors.New("busy"), s.executor.note("sweep"))
}

// has makes the plane believe that the task is here.
func (s *scene) has(id string, status protocol.TaskStatus) {
	task := protocol.Task{ID: id, Status: status, NodeID: nodeID, Generation: 1}
	s.plane.listed = append(s.plane.listed, task)
	s.plane.stored[id] = task
}

// contains makes a container on the node.
func (s *scene) contains(name string, labels map[string]string) {
	s.daemon.Plant(runtime.Spec{Name: name, Image: image, Labels: labels})
}

func own(id string) map[string]string {
	return map[string]string{taskcontainer.LabelTaskID: id, taskcontainer.LabelNodeID: nodeID}
}

// run reconciles for the time given.
func (s *scene) run(t *testing.T, lasting time.Duration) {
	t.Helper()
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	s.it.Run(ctx)
}

const oneRound = 30 * time.Second

func TestATaskIsCalledLostOnlyOnTwoFacts(t *testing.T) {
	unavailable := fmt.Errorf("read task: %w", client.ErrRetryable)
	cases := map[string]struct {
		prepare func(s *scene)
		want    []string
	}{
		"held here by the control plane, and no container": {func(s *scene) { s.has("1", "running") }, []string{"lost 1"}},
		"to stop, and no container":                        {func(s *scene) { s.has("1", "stopping") }, []string{"lost 1"}},
		"to sleep, and no container":                       {func(s *scene) { s.has("1", "sleeping") }, []string{"lost 1"}},
		"to wake, and no container":                        {func(s *scene) { s.has("1", "waking") }, []string{"lost 1"}},
		"claimed, and nothing of it has run":               {func(s *scene) { s.has("1", "running"); s.executor.resumable["1"] = true }, []string{"resume 1"}},
		"claimed and to stop before anything ran":          {func(s *scene) { s.has("1", "stopping"); s.executor.resumable["1"] = true }, []string{"lost 1"}},
		"it has an owner":                                  {func(s *scene) { s.has("1", "running"); s.executor.owned["1"] = true }, nil},
		"it was deleted since":                             {func(s *scene) { s.has("1", "running"); delete(s.plane.stored, "1") }, nil},
		"it has ended since": {func(s *scene) {
			s.has("1", "running")
			s.plane.stored["1"] = protocol.Task{ID: "1", Status: "completed", NodeID: nodeID}
		}, nil},
		"it fell asleep since": {func(s *scene) {
			s.has("1", "running")
			s.plane.stored["1"] = protocol.Task{ID: "1", Status: "asleep", NodeID: nodeID}
		}, nil},
		"it has moved since": {func(s *scene) {
			s.has("1", "running")
			s.plane.stored["1"] = protocol.Task{ID: "1", Status: "running", NodeID: "node-2"}
		}, nil},
		"it has no node any more": {func(s *scene) { s.has("1", "running"); s.plane.stored["1"] = protocol.Task{ID: "1", Status: "running"} }, nil},
		"a status from the future": {func(s *scene) {
			s.has("1", "running")
			s.plane.stored["1"] = protocol.Task{ID: "1", Status: "future", NodeID: nodeID}
		}, nil},
		"the question is not answered":               {func(s *scene) { s.has("1", "running"); s.plane.errs["1"] = unavailable }, nil},
		"the list is not answered":                   {func(s *scene) { s.has("1", "running"); s.plane.listErr = unavailable }, nil},
		"the key is refused":                         {func(s *scene) { s.has("1", "running"); s.plane.listErr = client.ErrUnauthorized }, nil},
		"its container is there, without its labels": {func(s *scene) { s.has("1", "running"); s.contains("task-1", nil) }, nil},
		"the runtime does not answer for its container": {func(s *scene) {
			s.has("1", "running")
			s.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpInspect, Times: 1})
		}, nil},
		"the journal cannot be read": {func(s *scene) { s.has("1", "running"); s.executor.fails["resume 1"] = errors.New("damaged") }, nil},
		"the question about another task is not answered": {func(s *scene) {
			s.has("1", "running")
			s.has("2", "running")
			s.plane.errs["1"] = unavailable
		}, []string{"lost 2"}},
		"no runtime": {func(s *scene) { s.has("1", "running"); s.away = runtime.ErrUnavailable }, nil},
		"its containers unknown": {func(s *scene) {
			s.has("1", "running")
			s.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpList, Times: 1})
		}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene()
				tc.prepare(s)
				s.run(t, oneRound)
				if diff := cmp.Diff(tc.want, s.executor.told(), cmp.Transformer("joined", func(s []string) string { return strings.Join(s, ", ") })); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestATaskWhoseContainersNameSomebodyElseHasIsTold(t *testing.T) {
	labels := map[string]map[string]string{
		"nobody's":                nil,
		"another node's":          {taskcontainer.LabelTaskID: "1", taskcontainer.LabelNodeID: "node-2"},
		"this node's, come since": own("1"),
	}
	for whose, labels := range labels {
		t.Run(whose, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene()
				s.has("1", "running")
				s.contains("task-1", labels)
				s.run(t, oneRound)
				told := s.logs.FilterField(zap.String("task_id", "1")).Len()
				if ours := labels[taskcontainer.LabelNodeID] == nodeID; ours != (told == 0) || s.executor.count("lost 1") != 0 {
					t.Errorf("told %d times, %v", told, s.executor.calls)
				}
			})
		})
	}
}

func TestThisNodesContainersAreAdoptedAndNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		s.contains("task-1", own("1"))
		s.contains("task-2", own("2"))
		s.contains("task-3", own("3"))
		s.contains("task-4", map[string]string{taskcontainer.LabelTaskID: "4", taskcontainer.LabelNodeID: "node-2"})
		s.contains("web", nil)
		s.executor.owned["2"] = true
		s.executor.fails["adopt task-1"] = errors.New("its labels are damaged")
		s.run(t, oneRound)
		told := s.executor.told()
		slices.Sort(told)
		if diff := cmp.Diff([]string{"adopt task-1", "adopt task-3"}, told); diff != "" {
			t.Error(diff)
		}
		if s.executor.count("allow claims") != 1 {
			t.Error("a container that is left alone keeps the node from claiming")
		}
	})
}

func TestClaimsAreAllowedOnceContainersAndResultsHaveTheirOwners(t *testing.T) {
	cases := map[string]struct {
		prepare func(s *scene)
		allowed bool
	}{
		"everything adopted":             {func(*scene) {}, true},
		"the control plane away":         {func(s *scene) { s.plane.listErr = client.ErrRetryable }, true},
		"no runtime":                     {func(s *scene) { s.away = runtime.ErrUnavailable }, false},
		"containers that are not listed": {func(s *scene) { s.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpList, Times: 1}) }, false},
		"results that cannot be read":    {func(s *scene) { s.executor.fails["adopt results"] = errors.New("damaged") }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScene()
				s.contains("task-1", own("1"))
				tc.prepare(s)
				s.run(t, oneRound)
				if allowed := s.executor.count("allow claims") > 0; allowed != tc.allowed || s.executor.count("retry") == 0 {
					t.Errorf("got %v, want claims allowed: %v, and a retry", s.executor.calls, tc.allowed)
				}
				first := slices.Index(s.executor.calls, "allow claims")
				for _, call := range []string{"adopt results", "sweep"} {
					if at := slices.Index(s.executor.calls, call); tc.allowed && (at < 0 || first < at) {
						t.Errorf("claims before %s: %v", call, s.executor.calls)
					}
				}
			})
		})
	}
}

func TestARoundComesEachPeriodAndWithEachKickAndNotBeforeTheRuntimeWasLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		ctx, cancel := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { s.it.Run(ctx) })
		rounds := func() int { return s.executor.count("retry") }
		time.Sleep(time.Hour)
		if n := rounds(); n != 0 {
			t.Errorf("%d rounds before the runtime was looked at", n)
		}
		close(s.ready)
		time.Sleep(time.Second)
		if n := rounds(); n != 1 {
			t.Errorf("%d rounds at once, want 1", n)
		}
		s.it.Kick()
		time.Sleep(time.Second)
		if n := rounds(); n != 2 {
			t.Errorf("%d rounds after a kick, want 2", n)
		}
		time.Sleep(10 * time.Minute)
		if n := rounds(); n < 10 || n > 14 {
			t.Errorf("%d rounds in ten minutes", n)
		}
		cancel()
		loop.Wait()
	})
}

func TestAReconcilerThatIsStoppedBeforeTheRuntimeWasLookedAtEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.it.Run(ctx)
		if len(s.executor.calls) != 0 {
			t.Errorf("got %v", s.executor.calls)
		}
	})
}
