package connector_test

import (
	"context"
	"errors"
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

	"github.com/heteroflow/node-agent/agent/connector"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// candidate is a runtime with a name of its own.
type candidate struct {
	*runtimefake.Runtime
	name   runtime.Name
	closed int
	err    error // of Close
}

func (c *candidate) Name() runtime.Name { return c.name }
func (c *candidate) Close() error       { c.closed++; return c.err }

// bench is a connector over two daemons, both away at first.
type bench struct {
	docker, containerd *runtimefake.Daemon
	it                 *connector.Connector
	logs               *observer.ObservedLogs
	returns            atomic.Int32
	candidates         []*candidate
}

var own = map[string]string{"node": "1"}

// onBench runs a test with a running connector.
func onBench(t *testing.T, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		b := &bench{docker: runtimefake.NewDaemon(), containerd: runtimefake.NewDaemon(), logs: logs}
		b.docker.Stop()
		b.containerd.Stop()
		b.candidates = []*candidate{{Runtime: b.docker.Connect(), name: runtime.Docker}, {Runtime: b.containerd.Connect(), name: runtime.Containerd}}
		b.it = connector.New(connector.Options{
			Candidates: []runtime.Runtime{b.candidates[0], b.candidates[1]}, Labels: own, Period: 5 * time.Second,
			Log: zap.New(core), OnReturn: func() { b.returns.Add(1) },
		})
		ctx, cancel := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		defer loop.Wait()
		defer cancel()
		loop.Go(func() { b.it.Run(ctx) })
		test(b)
	})
}

// look lets the connector look again.
func look() { time.Sleep(6 * time.Second) }

func (b *bench) uses(t *testing.T, name runtime.Name, available bool) {
	t.Helper()
	status := b.it.Status()
	if status.Name != name || !status.Chosen || status.Available != available || (status.Err == nil) != available {
		t.Errorf("got %+v, want %s, available: %v", status, name, available)
	}
	if rt, err := b.it.Runtime(); err != nil || rt.Name() != name {
		t.Errorf("runtime: %v, %v", rt, err)
	}
	rt, err := b.it.Usable()
	if available && (err != nil || rt.Name() != name) || !available && !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("usable: %v, %v", rt, err)
	}
}

func TestNothingIsKnownBeforeTheFirstLook(t *testing.T) {
	c := connector.New(connector.Options{Candidates: []runtime.Runtime{runtimefake.NewDaemon().Connect()}, Log: zap.NewNop()})
	for _, ask := range []func() (runtime.Runtime, error){c.Runtime, c.Usable} {
		if _, err := ask(); !errors.Is(err, runtime.ErrUnavailable) || strings.Contains(err.Error(), "%!") {
			t.Errorf("got %v", err)
		}
	}
	if s := c.Status(); s.Name != "" || s.Available || s.Chosen {
		t.Errorf("got %+v", s)
	}
	select {
	case <-c.Ready():
		t.Error("ready before the first look")
	default:
	}
}

func TestANodeWithoutARuntimeIsReadyAndSaysWhyThereIsNone(t *testing.T) {
	onBench(t, func(b *bench) {
		<-b.it.Ready()
		time.Sleep(time.Minute)
		status := b.it.Status()
		if status.Name != runtime.Docker || status.Chosen || status.Available || b.returns.Load() != 0 || status.Containers != nil {
			t.Errorf("got %+v, %d returns", status, b.returns.Load())
		}
		for _, name := range []string{"docker", "containerd", "connection refused"} {
			if !strings.Contains(status.Err.Error(), name) {
				t.Errorf("the error does not name %s: %v", name, status.Err)
			}
		}
		if _, err := b.it.Runtime(); !errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("runtime: %v", err)
		}
		if n := b.logs.FilterLevelExact(zapcore.ErrorLevel).Len(); n != 1 {
			t.Errorf("logged %d times in a minute", n)
		}
	})
}

func TestARuntimeThatAppearsIsTakenUpAndKept(t *testing.T) {
	onBench(t, func(b *bench) {
		look()
		b.containerd.Resume()
		look()
		b.uses(t, runtime.Containerd, true)
		if why := b.it.Status().Why; !strings.Contains(why, "docker") {
			t.Errorf("chosen because %q", why)
		}
		b.docker.Resume() // the preferred one: too late, the node's containers are elsewhere
		look()
		b.uses(t, runtime.Containerd, true)
		b.containerd.Stop()
		look()
		b.uses(t, runtime.Containerd, false)
		if s := b.it.Status(); s.Info.Version == "" || s.Containers != nil {
			t.Errorf("away: %+v", s)
		}
		b.containerd.Resume()
		look()
		b.uses(t, runtime.Containerd, true)
		if b.returns.Load() != 2 {
			t.Errorf("returned %d times, want 2", b.returns.Load())
		}
	})
}

func TestThePreferredRuntimeIsTakenWhenBothAnswer(t *testing.T) {
	onBench(t, func(b *bench) {
		b.docker.Resume()
		b.containerd.Resume()
		look()
		b.uses(t, runtime.Docker, true)
	})
}

func TestADaemonThatHangsHoldsUpNobody(t *testing.T) {
	onBench(t, func(b *bench) {
		b.docker.Resume()
		b.docker.Inject(runtimefake.Fault{Op: runtimefake.OpProbe, Times: 100, Hangs: true})
		b.containerd.Resume()
		time.Sleep(time.Second)
		if s := b.it.Status(); s.Name != "" { // answers at once with what there is
			t.Errorf("got %+v", s)
		}
		<-b.it.Ready()
		b.uses(t, runtime.Containerd, true)
	})
}

func TestAConnectorStopsInTheMiddleOfALookAndTakesNothingFromIt(t *testing.T) {
	for _, op := range []runtimefake.Op{runtimefake.OpProbe, runtimefake.OpList} {
		t.Run(string(op), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := runtimefake.NewDaemon()
				d.Inject(runtimefake.Fault{Op: op, Times: 1, Hangs: true})
				core, logs := observer.New(zapcore.InfoLevel)
				c := connector.New(connector.Options{Candidates: []runtime.Runtime{d.Connect()}, Period: time.Minute, Log: zap.New(core)})
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				begun := time.Now()
				c.Run(ctx)
				if took := time.Since(begun); took != 2*time.Second || c.Status().Name != "" || logs.Len() != 0 {
					t.Errorf("it took %v, found %+v and said %v", took, c.Status(), logs.All())
				}
			})
		})
	}
}

func TestARuntimeThatCannotListIsNotAvailable(t *testing.T) {
	onBench(t, func(b *bench) {
		b.docker.Inject(runtimefake.Fault{Op: runtimefake.OpList, Times: 1})
		b.docker.Resume()
		time.Sleep(time.Second)
		b.uses(t, runtime.Docker, false)
		look()
		b.uses(t, runtime.Docker, true)
	})
}

func TestTheContainersOfThisNodeAreListed(t *testing.T) {
	onBench(t, func(b *bench) {
		b.docker.Plant(runtime.Spec{Name: "task-1", Image: "app", Labels: own})
		b.docker.Plant(runtime.Spec{Name: "web", Image: "app"})
		b.docker.Resume()
		look()
		if c := b.it.Status().Containers; len(c) != 1 || c[0].Name != "task-1" {
			t.Errorf("got %+v", c)
		}
	})
}

func TestCloseClosesEveryCandidate(t *testing.T) {
	onBench(t, func(b *bench) {
		b.candidates[0].err = errors.New("busy")
		if err := b.it.Close(); !errors.Is(err, b.candidates[0].err) || b.candidates[0].closed != 1 || b.candidates[1].closed != 1 {
			t.Errorf("got %v", err)
		}
	})
}
