package executor_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/agent/process"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// processes are those of a machine on which one shim can be killed.
type processes struct {
	unseen bool // they cannot be told from others
	gone   atomic.Bool
}

func (p *processes) Of(_ string, pid int) (process.Process, bool) {
	return process.Process{PID: pid, Ticks: 1}, !p.unseen && !p.gone.Load()
}

func (p *processes) Gone(process.Process) bool { return p.gone.Load() }

// onShims is a test on a node whose task 1 runs the program with a card.
func onShims(t *testing.T, p *processes, program runtimefake.Program, test func(n *node)) {
	t.Helper()
	withCards(t, program, func(n *node) {
		n.procs = p
		n.restart()
		n.plane.add("1", image, card("A"))
		n.runs("1")
		time.Sleep(time.Minute)
		test(n)
	})
}

func TestATaskWhoseProcessIsGoneIsLostThoughTheRuntimeSaysItRuns(t *testing.T) {
	cases := map[string]struct {
		kill   func(n *node, p *processes)
		status protocol.TaskStatus
	}{
		"while the agent watches": {func(_ *node, p *processes) { p.gone.Store(true) }, protocol.StatusFailed},
		"while no agent runs": {func(n *node, p *processes) {
			n.kill()
			p.gone.Store(true)
			n.start()
		}, protocol.StatusFailed},
		"while it is to stop": {func(n *node, p *processes) {
			p.gone.Store(true)
			n.plane.setStatus("1", protocol.StatusStopping)
		}, protocol.StatusStopped},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &processes{}
			onShims(t, p, runtimefake.Program{Unkillable: true}, func(n *node) {
				tc.kill(n, p)
				n.until(10*time.Minute, "reported", func() bool { return n.plane.status("1") == tc.status })
				updates := n.plane.updates("1", over...)
				want := ending{tc.status, protocol.ReasonContainerLost, -1, false}
				if diff := cmp.Diff(want, endingOf(t, updates)); diff != "" {
					t.Error(diff)
				}
				if words := updates[0].ErrorMessage; !strings.Contains(words, "is gone") {
					t.Errorf("the reason is told as %q", words)
				}
				if n.starts("1", "1") != 1 {
					t.Errorf("%d starts", n.starts("1", "1"))
				}
				n.daemon.Vanish("task-1")
				n.ends(10*time.Minute, "1", tc.status)
				n.daemon.AddImage(image, runtimefake.Program{Forever: true})
				n.plane.add("2", image, card("A"))
				n.runs("2")
			})
		})
	}
}

func TestATaskIsNotLostBeforeItIsCertainThatItsProcessIsGone(t *testing.T) {
	const runs = 70 * time.Minute
	cases := map[string]struct {
		unseen  bool
		trouble func(n *node, p *processes)
	}{
		"the runtime hears of the end a minute later": {false, func(_ *node, p *processes) {
			time.Sleep(runs - 2*time.Minute)
			p.gone.Store(true)
		}},
		"the runtime is away meanwhile": {false, func(n *node, p *processes) {
			p.gone.Store(true)
			n.daemon.Stop()
			time.Sleep(2 * runs)
			n.daemon.Resume()
		}},
		"it was only not found once or twice": {false, func(_ *node, p *processes) {
			for range 10 {
				p.gone.Store(true)
				time.Sleep(time.Minute)
				p.gone.Store(false)
				time.Sleep(2 * time.Minute)
			}
		}},
		"the control plane makes the agent look again and again": {false, func(n *node, p *processes) {
			p.gone.Store(true)
			for range 20 {
				n.agent.executor.Retry()
				time.Sleep(time.Second)
			}
			p.gone.Store(false)
		}},
		"it was never seen in the container": {true, func(_ *node, p *processes) { p.gone.Store(true) }},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := &processes{unseen: tc.unseen}
			onShims(t, p, runtimefake.Program{Runs: runs, Code: 3}, func(n *node) {
				if n.state("1") != runtime.StateRunning {
					t.Fatalf("it is %s", n.state("1"))
				}
				tc.trouble(n, p)
				n.ends(3*runs, "1", protocol.StatusFailed)
				want := ending{protocol.StatusFailed, protocol.ReasonExited, 3, false}
				if diff := cmp.Diff(want, endingOf(t, n.plane.updates("1", over...))); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
