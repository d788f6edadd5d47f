package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/cluster"
)

// Both ways of polling: with every optional feature, and against a server that has none.
var servers = map[string]devserver.Features{
	"a server with every feature": {},
	"a server without any":        {EmptyReply: true},
}

// onEachRuntime runs a test once for each container runtime.
func onEachRuntime(t *testing.T, name string, test func(t *testing.T, on runtime.Name)) {
	t.Helper()
	for _, on := range runtimes {
		t.Run(strings.TrimSpace(name+" on "+string(on)), func(t *testing.T) { test(t, on) })
	}
}

func TestTasksRunToTheirEnd(t *testing.T) {
	for name, features := range servers {
		onEachRuntime(t, "with "+name, func(t *testing.T, on runtime.Name) {
			w := newWorldOn(t, on, features)
			w.Start()
			id := func(s string) string { return fmt.Sprintf("%s-%s", w.Agent.NodeID, s) }
			w.Submit(w.Task(id("ok"), "exit", "--message", "all went well", "0"))
			w.Submit(w.Task(id("three"), "exit", "3"))
			hungry := w.Task(id("oom"), "eat-memory", "--mb", "256", "--when", "/v/hungry")
			hungry.MemoryBytes = 32 << 20
			dir := filepath.Join(w.Agent.Dir, "volume")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			hungry.Volumes = []protocol.Volume{{HostPath: dir, ContainerPath: "/v"}}
			w.Submit(hungry)
			late := w.Task(id("late"), "sleep", "1h")
			late.TimeoutSeconds = 1
			w.Submit(late)
			w.Runs(id("oom")) // before that Docker's containerd does not look out for a lack of memory
			if err := os.WriteFile(filepath.Join(dir, "hungry"), nil, 0o600); err != nil {
				t.Fatal(err)
			}

			ok := w.Reaches(id("ok"), protocol.StatusCompleted)
			if *ok.Outcome.ExitCode != 0 || ok.Outcome.Reason != protocol.ReasonExited || !strings.Contains(ok.Outcome.LogTail, "all went well") {
				t.Errorf("ok: %+v", ok.Outcome)
			}
			if s, f := ok.Outcome.StartedAt, ok.Outcome.FinishedAt; s == nil || f == nil || f.Before(*s) || ok.Outcome.ContainerID == "" {
				t.Errorf("ok: %+v", ok.Outcome)
			}
			three := w.Reaches(id("three"), protocol.StatusFailed)
			if *three.Outcome.ExitCode != 3 || three.Outcome.Reason != protocol.ReasonExited {
				t.Errorf("three: %+v", three.Outcome)
			}
			oom := w.Reaches(id("oom"), protocol.StatusFailed)
			if *oom.Outcome.ExitCode != 137 || oom.Outcome.Reason != protocol.ReasonOOMKilled || !*oom.Outcome.OOMKilled {
				t.Errorf("oom: %+v", oom.Outcome)
			}
			timedOut := w.Reaches(id("late"), protocol.StatusFailed)
			if *timedOut.Outcome.ExitCode != 124 || timedOut.Outcome.Reason != protocol.ReasonTimeout {
				t.Errorf("late: %+v", timedOut.Outcome)
			}
			w.Eventually("no container left", func() bool { return len(w.Containers()) == 0 })
		})
	}
}

func TestAServiceBecomesHealthySleepsWakesAndIsStopped(t *testing.T) {
	onEachRuntime(t, "", serviceLife)
}

func serviceLife(t *testing.T, on runtime.Name) {
	w := newWorldOn(t, on, devserver.Features{})
	w.Start()
	service := w.Task(w.Agent.NodeID, "serve", "--port", "8000")
	service.Network = protocol.NetworkBridge
	service.HealthCheck = &protocol.HealthCheck{Type: protocol.HealthHTTP, Path: "/health", Port: 8000, IntervalSeconds: 1}
	w.Submit(service)
	healthy := func(hb protocol.Heartbeat) bool {
		return len(hb.TaskHealth) == 1 && hb.TaskHealth[0].State == protocol.HealthHealthy && len(hb.LiveTaskIDs) == 1
	}
	w.Beats("a healthy service", healthy)
	first := w.Container(service.ID)

	w.Act(service.ID, operator.ActionSleep)
	w.Reaches(service.ID, protocol.StatusAsleep)
	if c := w.Container(service.ID); c.ID != first.ID || c.State.Alive() {
		t.Fatalf("asleep: %+v", c)
	}
	// Else the next one could be of before the sleep, and the program not there yet to be stopped.
	w.Beats("no health", func(hb protocol.Heartbeat) bool { return len(hb.TaskHealth) == 0 })
	w.Act(service.ID, operator.ActionWake)
	w.Reaches(service.ID, protocol.StatusRunning)
	w.Beats("the service healthy again", healthy)
	if c := w.Container(service.ID); c.ID != first.ID || !c.State.Alive() {
		t.Fatalf("awake: %+v", c)
	}
	w.Act(service.ID, operator.ActionStop)
	stopped := w.Reaches(service.ID, protocol.StatusStopped)
	if stopped.Outcome.Reason != protocol.ReasonStopped || *stopped.Outcome.ExitCode != 0 {
		t.Fatalf("stopped: %+v", stopped.Outcome)
	}
	w.Gone(service.ID)
}

func TestWhatTheOperatorTakesBackIsStoppedAndRemoved(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	w.Start()
	cases := map[string]func(id string){
		"cancelled": func(id string) { w.Act(id, operator.ActionCancel) },
		"deleted": func(id string) {
			if err := w.Plane.Operator.DeleteTask(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
		"moved": func(id string) {
			if _, err := w.Plane.Operator.Assign(t.Context(), id, "another-node"); err != nil {
				t.Fatal(err)
			}
		},
	}
	for how, takeBack := range cases {
		t.Run(how, func(*testing.T) {
			id := w.Agent.NodeID + "-" + how
			w.Submit(w.Task(id, "sleep", "1h"))
			w.Eventually("it runs", func() bool {
				all := w.Containers()
				return len(all) == 1 && all[0].State.Alive() && w.Container(id).PID != 0
			})
			takeBack(id)
			w.Gone(id)
		})
	}
}

func TestAMalformedTaskFailsWithAllItsProblems(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	w.Start()
	bad := w.Task(w.Agent.NodeID, "exit", "0")
	bad.Status = protocol.StatusScheduled
	bad.WorkingDir = "here"
	bad.MemoryBytes = -1
	bad.Volumes = []protocol.Volume{{HostPath: "/data", ContainerPath: "relative"}}
	if _, err := w.Plane.Operator.CreateTaskUnchecked(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	failed := w.Reaches(bad.ID, protocol.StatusFailed)
	for _, want := range []string{"working_dir", "memory_bytes", "volumes[0].container_path"} {
		if !strings.Contains(failed.Outcome.ErrorMessage, want) {
			t.Errorf("%q does not name %s", failed.Outcome.ErrorMessage, want)
		}
	}
	if failed.Outcome.Reason != protocol.ReasonInvalidSpec || len(w.Containers()) != 0 {
		t.Errorf("%+v, containers %v", failed.Outcome, w.Containers())
	}
	w.Submit(w.Task(w.Agent.NodeID+"-next", "exit", "0"))
	w.Reaches(w.Agent.NodeID+"-next", protocol.StatusCompleted)
	w.Gone(w.Agent.NodeID + "-next")
}

func TestPreconditionsAreRefusedWithTheirOwnReason(t *testing.T) {
	onEachRuntime(t, "", preconditions)
}

func preconditions(t *testing.T, on runtime.Name) {
	w := newWorldOn(t, on, devserver.Features{})
	w.Start()
	cases := map[string]struct {
		spoil  func(*protocol.Task)
		reason protocol.Reason
	}{
		"etc": {func(task *protocol.Task) { task.Volumes = []protocol.Volume{{HostPath: "/etc", ContainerPath: "/x"}} }, protocol.ReasonVolumeDenied},
		"socket": {func(task *protocol.Task) {
			task.Volumes = []protocol.Volume{{HostPath: "/var/run/docker.sock", ContainerPath: "/x"}}
		}, protocol.ReasonVolumeDenied},
		"state": {func(task *protocol.Task) {
			task.Volumes = []protocol.Volume{{HostPath: w.Agent.StateDir(), ContainerPath: "/x"}}
		}, protocol.ReasonVolumeDenied},
		"noimage": {func(task *protocol.Task) { task.Image = shared.Images().Ref("heteroflow/absent:v1") }, protocol.ReasonImageNotFound},
		"noauth": {func(task *protocol.Task) {
			task.Image = shared.Images().Ref("heteroflow/absent:v2")
			task.RegistryAuth = nil
		}, protocol.ReasonRegistryDenied},
		"program": {func(task *protocol.Task) { task.Command = []string{"/no/such/program"} }, protocol.ReasonStartFailed},
	}
	for name, tc := range cases {
		task := w.Task(w.Agent.NodeID+"-"+name, "exit", "0")
		tc.spoil(&task)
		w.Submit(task)
		failed := w.Reaches(task.ID, protocol.StatusFailed)
		if failed.Outcome.Reason != tc.reason || failed.Outcome.ErrorMessage == "" || failed.Outcome.ExitCode != nil {
			t.Errorf("%s: %+v, want %s", name, failed.Outcome, tc.reason)
		}
	}
	w.Eventually("no container left", func() bool { return len(w.Containers()) == 0 })
}

func TestAnOrderlyStopLeavesContainersAndTheNextAgentTakesThemOver(t *testing.T) {
	for how, stop := range map[string]func(*cluster.World){
		"an orderly stop": func(w *cluster.World) {
			if err := w.Agent.Stop(); err != nil {
				w.T.Fatal(err)
			}
			w.Beats("state offline", func(hb protocol.Heartbeat) bool { return hb.State == protocol.NodeOffline })
		},
		"kill -9": func(w *cluster.World) { w.Agent.Kill() },
	} {
		onEachRuntime(t, how, func(t *testing.T, on runtime.Name) {
			w := newWorldOn(t, on, devserver.Features{})
			w.Start()
			running, ending := w.Agent.NodeID+"-running", w.Agent.NodeID+"-ending"
			for _, id := range []string{running, ending} {
				w.Submit(w.Task(id, "train", "--steps", "100000", "--checkpoint-dir", "/tmp"))
			}
			for _, id := range []string{running, ending} {
				w.Prints(id, "step 2")
			}
			before := w.Container(running)
			stop(w)
			if got := w.Container(running); got.ID != before.ID || got.PID != before.PID {
				t.Fatalf("the container did not survive: %+v, was %+v", got, before)
			}
			// One of them ends while nobody watches.
			if err := syscall.Kill(w.Container(ending).PID, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			w.Eventually("it ended", func() bool { return !w.Container(ending).State.Alive() })

			w.Start()
			ended := w.Reaches(ending, protocol.StatusFailed)
			if *ended.Outcome.ExitCode != 143 || time.Since(*ended.Outcome.FinishedAt) > cluster.Patience {
				t.Errorf("the one that ended unwatched: %+v", ended.Outcome)
			}
			w.Beats("the other live", func(hb protocol.Heartbeat) bool { return len(hb.LiveTaskIDs) == 1 && hb.LiveTaskIDs[0] == running })
			w.Act(running, operator.ActionStop)
			w.Reaches(running, protocol.StatusStopped)
			w.Gone(running)
			if got := w.Agent.Log(); strings.Contains(got, `"level":"error"`) {
				t.Error("the agent logged an error")
			}
			w.Eventually("the journal holds no task", func() bool {
				entries, err := os.ReadDir(w.Agent.StateDir() + "/tasks")
				return err == nil && len(entries) == 0
			})
		})
	}
}
