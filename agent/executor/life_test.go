package executor_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// ending is what the control plane is told of how a task ended.
type ending struct {
	Status protocol.TaskStatus
	Reason protocol.Reason
	Code   int // -1: none
	OOM    bool
}

func endingOf(t testing.TB, updates []applied) ending {
	t.Helper()
	if len(updates) != 1 {
		t.Fatalf("%d terminal transitions, want 1: %+v", len(updates), updates)
	}
	u := updates[0]
	e := ending{Status: u.Status, Reason: u.Reason, Code: -1, OOM: u.OOMKilled != nil && *u.OOMKilled}
	if u.ExitCode != nil {
		e.Code = *u.ExitCode
	}
	return e
}

// over are the statuses a task ends in.
var over = []protocol.TaskStatus{protocol.StatusCompleted, protocol.StatusFailed, protocol.StatusStopped}

func TestATaskEndsAsItsProgramDoes(t *testing.T) {
	cases := map[string]struct {
		program runtimefake.Program
		change  func(*protocol.Task)
		want    ending
	}{
		"one that exits with 0 completes":                   {runtimefake.Program{Runs: time.Minute}, nil, ending{protocol.StatusCompleted, protocol.ReasonExited, 0, false}},
		"one that is over at once completes":                {runtimefake.Program{}, nil, ending{protocol.StatusCompleted, protocol.ReasonExited, 0, false}},
		"one that exits with 3 fails with that code":        {runtimefake.Program{Runs: time.Second, Code: 3}, nil, ending{protocol.StatusFailed, protocol.ReasonExited, 3, false}},
		"one that is killed is not taken for out of memory": {runtimefake.Program{Code: 137}, nil, ending{protocol.StatusFailed, protocol.ReasonExited, 137, false}},
		"one that is killed for memory says so":             {runtimefake.Program{Code: 137, OOMKilled: true}, nil, ending{protocol.StatusFailed, protocol.ReasonOOMKilled, 137, true}},
		"one that outlives a child killed for memory":       {runtimefake.Program{OOMKilled: true}, nil, ending{protocol.StatusCompleted, protocol.ReasonExited, 0, true}},
		"a lost exit code is not 0":                         {runtimefake.Program{CodeLost: true}, nil, ending{protocol.StatusFailed, protocol.ReasonExitUnknown, -1, false}},
		"a program that cannot be executed never ran":       {runtimefake.Program{StartError: "exec format error"}, nil, ending{protocol.StatusFailed, protocol.ReasonStartFailed, -1, false}},
		"one that takes too long is stopped with 124": {
			runtimefake.Program{Forever: true},
			func(t *protocol.Task) { t.TimeoutSeconds = 60 },
			ending{protocol.StatusFailed, protocol.ReasonTimeout, 124, false},
		},
		"and killed if it does not heed the signal": {
			runtimefake.Program{Forever: true, IgnoresTerm: true},
			func(t *protocol.Task) { t.TimeoutSeconds = 60 },
			ending{protocol.StatusFailed, protocol.ReasonTimeout, 124, false},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				tc.program.Output = "hello\n"
				n.daemon.AddImage(image, tc.program)
				n.plane.add("1", image, func(task *protocol.Task) {
					if tc.change != nil {
						tc.change(task)
					}
				})
				n.ends(5*time.Minute, "1", tc.want.Status)
				if diff := cmp.Diff(tc.want, endingOf(t, n.plane.updates("1", over...))); diff != "" {
					t.Error(diff)
				}
				ran := tc.program.StartError == ""
				if tail := n.plane.updates("1", over...)[0].LogTail; (tail == "hello\n") != ran {
					t.Errorf("log tail %q", tail)
				}
				if n.starts("1", "1") > 1 {
					t.Errorf("started %d times", n.starts("1", "1"))
				}
			})
		})
	}
}

func TestATaskThatCannotBeLaunchedSaysWhy(t *testing.T) {
	const remote = "registry.example/remote:v1"
	cases := map[string]struct {
		prepare func(n *node, task *protocol.Task)
		want    protocol.Reason
		says    []string
	}{
		"an invalid task names every problem": {func(_ *node, task *protocol.Task) {
			task.Env, task.WorkingDir, task.CPUs = []string{"=x"}, "relative", -1
		}, protocol.ReasonInvalidSpec, []string{"env[0]", "working_dir", "cpus"}},
		"an image no registry has": {func(_ *node, task *protocol.Task) {
			task.Image = "registry.example/none:v1"
		}, protocol.ReasonImageNotFound, []string{"registry.example/none:v1"}},
		"an image that is not a reference": {func(_ *node, task *protocol.Task) {
			task.Image = "no reference"
		}, protocol.ReasonInvalidSpec, []string{"no reference"}},
		"a registry that wants credentials": {func(n *node, task *protocol.Task) {
			n.daemon.Publish(remote, runtimefake.Published{Wants: "word"})
			task.Image = remote
		}, protocol.ReasonRegistryDenied, []string{"denied"}},
		"a registry that wants others": {func(n *node, task *protocol.Task) {
			n.daemon.Publish(remote, runtimefake.Published{Wants: "word"})
			task.Image, task.RegistryAuth = remote, &protocol.RegistryAuth{Username: "u", Password: "secret-mark"}
		}, protocol.ReasonRegistryDenied, []string{"denied"}},
		"a registry that is broken for three tries": {func(n *node, task *protocol.Task) {
			n.daemon.Publish(remote, runtimefake.Published{Err: runtime.ErrRegistryUnavailable})
			task.Image = remote
		}, protocol.ReasonImagePullFailed, []string{"3 attempts"}},
		"a disk without room for the image": {func(n *node, task *protocol.Task) {
			n.daemon.Publish(remote, runtimefake.Published{Err: runtime.ErrNoSpace})
			task.Image = remote
		}, protocol.ReasonImagePullFailed, []string{"no space"}},
		"a volume outside the fence": {func(_ *node, task *protocol.Task) {
			task.Volumes = []protocol.Volume{{HostPath: "/etc", ContainerPath: "/a"}, {HostPath: "/proc", ContainerPath: "/b"}}
		}, protocol.ReasonVolumeDenied, []string{"volumes[0]", "volumes[1]"}},
		"cards, of which the agent keeps no inventory": {func(_ *node, task *protocol.Task) {
			task.Devices = []protocol.TaskDevice{{Index: new(0)}}
		}, protocol.ReasonGPUUnavailable, []string{"devices"}},
		"a daemon that refuses to start it": {func(n *node, _ *protocol.Task) {
			n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpStart, Times: 1, Err: runtime.ErrNoSpace})
		}, protocol.ReasonStartFailed, []string{"no space"}},
		"a daemon that refuses to make it": {func(n *node, _ *protocol.Task) {
			n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpCreate, Times: 1, Err: runtime.ErrInvalid})
		}, protocol.ReasonInvalidSpec, []string{"invalid"}},
		"a name taken by a stranger's container": {func(n *node, _ *protocol.Task) {
			n.daemon.Plant(plain("task-1"))
		}, protocol.ReasonStartFailed, []string{"in use"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.AddImage(image, runtimefake.Program{Forever: true})
				n.plane.add("1", image, func(task *protocol.Task) { tc.prepare(n, task) })
				strangers := len(n.daemon.Containers())
				n.until(2*time.Minute, "failed", func() bool { return n.plane.status("1") == protocol.StatusFailed })
				n.until(time.Minute, "nothing left", func() bool { return !n.agent.executor.Owns("1") })
				u := n.plane.updates("1", protocol.StatusFailed)[0]
				if u.Reason != tc.want || u.ExitCode != nil {
					t.Errorf("reason %q and code %v, want %q and none: %s", u.Reason, u.ExitCode, tc.want, u.ErrorMessage)
				}
				for _, says := range tc.says {
					if !strings.Contains(u.ErrorMessage, says) {
						t.Errorf("message %q, want it to say %q", u.ErrorMessage, says)
					}
				}
				if len(n.daemon.Starts()) != 0 || len(n.daemon.Containers()) != strangers {
					t.Errorf("%d starts, containers %v", len(n.daemon.Starts()), n.daemon.Containers())
				}
				if n.logged("task given up") {
					t.Error("the owner gave up")
				}
				for _, entry := range n.logs.All() {
					if strings.Contains(fmt.Sprint(entry.Message, entry.ContextMap()), "secret-mark") {
						t.Errorf("a password is logged: %v", entry)
					}
				}
			})
		})
	}
}

// plain is the spec of a container that is no task's.
func plain(name string) runtime.Spec {
	return runtime.Spec{
		Name: name, Image: image, Network: runtime.Network{Mode: runtime.NetworkNone}, IPC: runtime.IPCPrivate,
		Logs: runtime.LogLimits{MaxBytes: 1, MaxFiles: 1},
	}
}

func TestAPrivateImageIsPulledWithTheTasksCredentials(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.Publish(image, runtimefake.Published{Takes: time.Minute, Wants: "word"})
		n.plane.add("1", image, func(task *protocol.Task) {
			task.RegistryAuth = &protocol.RegistryAuth{Username: "u", Password: "word"}
		})
		n.ends(2*time.Minute, "1", protocol.StatusCompleted)
	})
}

func TestTheContainerIsTheTasks(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Forever: true})
		n.plane.add("1", image, func(task *protocol.Task) { task.Generation = 7 })
		n.runs("1")
		c := n.daemon.Containers()[0]
		id, err := taskcontainer.Identify(c, nodeID)
		if err != nil || id.TaskID != "1" || id.Generation != 7 || c.Name != "task-1" {
			t.Errorf("got %+v, %v", id, err)
		}
	})
}

func TestNoMoreTasksRunThanThereAreWorkers(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Runs: time.Minute})
		for i := range 10 {
			n.plane.add(fmt.Sprint(i), image)
		}
		most := 0
		n.until(10*time.Minute, "all completed", func() bool {
			running, done := 0, 0
			for i := range 10 {
				if n.state(fmt.Sprint(i)) == runtime.StateRunning {
					running++
				}
				if n.plane.status(fmt.Sprint(i)) == protocol.StatusCompleted {
					done++
				}
			}
			most = max(most, running)
			return done == 10
		})
		if most != n.workers {
			t.Errorf("%d ran at once, want %d", most, n.workers)
		}
	})
}

func TestATaskAsleepOrOwingLeavesItsPlaceToAnother(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Forever: true})
		for i := range n.workers {
			n.plane.add(fmt.Sprint(i), image)
			n.runs(fmt.Sprint(i))
		}
		n.plane.add("a", image)
		n.plane.add("b", image)
		time.Sleep(time.Minute)
		if n.state("a") != "" {
			t.Fatal("a fifth task runs")
		}
		n.plane.setStatus("0", protocol.StatusSleeping)
		n.until(time.Minute, "0 asleep", func() bool { return n.plane.status("0") == protocol.StatusAsleep })
		n.runs("a")
		time.Sleep(time.Minute)
		if n.state("b") != "" {
			t.Fatal("a fifth task runs")
		}
		lift := n.plane.trouble(trouble{which: reports, times: -1, status: 500})
		n.daemon.Vanish("task-1")
		n.runs("b")
		lift()
		n.ends(3*time.Minute, "1", protocol.StatusFailed)
	})
}

func TestNothingIsClaimed(t *testing.T) {
	cases := map[string]func(n *node){
		"while the node is drained":           func(n *node) { n.drained.Store(true) },
		"once the agent is to stop":           func(n *node) { n.agent.executor.StopClaiming() },
		"while the container runtime is away": func(n *node) { n.daemon.Stop(); time.Sleep(10 * time.Second) },
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.AddImage(image, runtimefake.Program{Runs: time.Minute})
				n.plane.add("running", image)
				n.runs("running")
				prepare(n)
				n.plane.add("new", image)
				time.Sleep(10 * time.Minute)
				if got := n.plane.status("new"); got != protocol.StatusScheduled {
					t.Errorf("the new task is %s", got)
				}
				n.daemon.Resume()
				n.ends(2*time.Minute, "running", protocol.StatusCompleted)
			})
		})
	}
}

func TestANodeThatIsNotDrainedAnyMoreClaimsAgain(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{})
		n.drained.Store(true)
		n.plane.add("1", image)
		time.Sleep(time.Minute)
		n.drained.Store(false)
		n.ends(time.Minute, "1", protocol.StatusCompleted)
	})
}

func TestADrainedNodeSeesToWhatItHasUntilTheEnd(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Forever: true})
		for _, id := range []string{"stopped", "woken"} {
			n.plane.add(id, image)
			n.runs(id)
		}
		n.drained.Store(true)
		n.plane.setStatus("woken", protocol.StatusSleeping)
		n.until(time.Minute, "asleep", func() bool { return n.plane.status("woken") == protocol.StatusAsleep })
		n.restart()
		n.plane.setStatus("woken", protocol.StatusWaking)
		n.until(2*time.Minute, "awake", func() bool { return n.plane.status("woken") == protocol.StatusRunning })
		for _, id := range []string{"stopped", "woken"} {
			n.plane.setStatus(id, protocol.StatusStopping)
			n.ends(2*time.Minute, id, protocol.StatusStopped)
		}
	})
}

func TestNothingIsClaimedBeforeTheFirstAdoption(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Runs: time.Hour})
		n.plane.add("old", image)
		n.runs("old")
		n.stop()
		n.daemon.Inject(runtimefake.Fault{Op: runtimefake.OpList, Times: 20})
		n.start()
		n.plane.add("new", image)
		n.runs("new")
		adopted := n.logs.FilterMessage("container adopted").All()
		claimed := n.plane.asks(claims)
		if last := claimed[len(claimed)-1]; len(adopted) != 1 || last.At.Before(adopted[0].Time) {
			t.Errorf("claimed at %v, before %v", last.At, adopted)
		}
		if waited := claimed[len(claimed)-1].At.Sub(n.logs.FilterMessage("container runtime does not answer: nothing can be started until it does").All()[0].Time); waited < time.Minute {
			t.Errorf("claimed after %v, while the containers could not be listed", waited)
		}
	})
}

func TestAPlaneThatOffersATaskWithAnInvalidIDIsNotFollowed(t *testing.T) {
	onNode(t, func(n *node) {
		n.plane.add("../1", image)
		time.Sleep(time.Minute)
		if asks := n.plane.asks(claims); len(asks) != 0 || !n.logged("invalid id") {
			t.Errorf("claimed: %v", asks)
		}
	})
}
