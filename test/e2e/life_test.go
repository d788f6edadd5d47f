package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
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
			w.start()
			id := func(s string) string { return fmt.Sprintf("%s-%s", w.agent.NodeID, s) }
			w.submit(w.task(id("ok"), "exit", "--message", "all went well", "0"))
			w.submit(w.task(id("three"), "exit", "3"))
			hungry := w.task(id("oom"), "eat-memory", "--mb", "256")
			hungry.MemoryBytes = 32 << 20
			w.submit(hungry)
			late := w.task(id("late"), "sleep", "1h")
			late.TimeoutSeconds = 1
			w.submit(late)

			ok := w.reaches(id("ok"), protocol.StatusCompleted)
			if *ok.Outcome.ExitCode != 0 || ok.Outcome.Reason != protocol.ReasonExited || !strings.Contains(ok.Outcome.LogTail, "all went well") {
				t.Errorf("ok: %+v", ok.Outcome)
			}
			if s, f := ok.Outcome.StartedAt, ok.Outcome.FinishedAt; s == nil || f == nil || f.Before(*s) || ok.Outcome.ContainerID == "" {
				t.Errorf("ok: %+v", ok.Outcome)
			}
			three := w.reaches(id("three"), protocol.StatusFailed)
			if *three.Outcome.ExitCode != 3 || three.Outcome.Reason != protocol.ReasonExited {
				t.Errorf("three: %+v", three.Outcome)
			}
			oom := w.reaches(id("oom"), protocol.StatusFailed)
			if *oom.Outcome.ExitCode != 137 || oom.Outcome.Reason != protocol.ReasonOOMKilled || !*oom.Outcome.OOMKilled {
				t.Errorf("oom: %+v", oom.Outcome)
			}
			timedOut := w.reaches(id("late"), protocol.StatusFailed)
			if *timedOut.Outcome.ExitCode != 124 || timedOut.Outcome.Reason != protocol.ReasonTimeout {
				t.Errorf("late: %+v", timedOut.Outcome)
			}
			w.eventually("no container left", func() bool { return len(w.containers()) == 0 })
		})
	}
}

func TestAServiceBecomesHealthySleepsWakesAndIsStopped(t *testing.T) {
	onEachRuntime(t, "", serviceLife)
}

func serviceLife(t *testing.T, on runtime.Name) {
	w := newWorldOn(t, on, devserver.Features{})
	w.start()
	service := w.task(w.agent.NodeID, "serve", "--port", "8000")
	service.Network = protocol.NetworkBridge
	service.HealthCheck = &protocol.HealthCheck{Type: protocol.HealthHTTP, Path: "/health", Port: 8000, IntervalSeconds: 1}
	w.submit(service)
	healthy := func(hb protocol.Heartbeat) bool {
		return len(hb.TaskHealth) == 1 && hb.TaskHealth[0].State == protocol.HealthHealthy && len(hb.LiveTaskIDs) == 1
	}
	w.beats("a healthy service", healthy)
	first := w.container(service.ID)

	w.act(service.ID, operator.ActionSleep)
	w.reaches(service.ID, protocol.StatusAsleep)
	if c := w.container(service.ID); c.ID != first.ID || c.State.Alive() {
		t.Fatalf("asleep: %+v", c)
	}
	w.act(service.ID, operator.ActionWake)
	w.reaches(service.ID, protocol.StatusRunning)
	w.beats("the service healthy again", healthy)
	if c := w.container(service.ID); c.ID != first.ID || !c.State.Alive() {
		t.Fatalf("awake: %+v", c)
	}
	w.act(service.ID, operator.ActionStop)
	stopped := w.reaches(service.ID, protocol.StatusStopped)
	if stopped.Outcome.Reason != protocol.ReasonStopped || *stopped.Outcome.ExitCode != 0 {
		t.Fatalf("stopped: %+v", stopped.Outcome)
	}
	w.gone(service.ID)
}

func TestWhatTheOperatorTakesBackIsStoppedAndRemoved(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	w.start()
	cases := map[string]func(id string){
		"cancelled": func(id string) { w.act(id, operator.ActionCancel) },
		"deleted": func(id string) {
			if err := w.plane.Operator.DeleteTask(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
		"moved": func(id string) {
			if _, err := w.plane.Operator.Assign(t.Context(), id, "another-node"); err != nil {
				t.Fatal(err)
			}
		},
	}
	for how, takeBack := range cases {
		t.Run(how, func(*testing.T) {
			id := w.agent.NodeID + "-" + how
			w.submit(w.task(id, "sleep", "1h"))
			w.eventually("it runs", func() bool {
				all := w.containers()
				return len(all) == 1 && all[0].State.Alive() && w.container(id).PID != 0
			})
			takeBack(id)
			w.gone(id)
		})
	}
}

func TestAMalformedTaskFailsWithAllItsProblems(t *testing.T) {
	w := newWorld(t, devserver.Features{})
	w.start()
	bad := w.task(w.agent.NodeID, "exit", "0")
	bad.Status = protocol.StatusScheduled
	bad.WorkingDir = "here"
	bad.MemoryBytes = -1
	bad.Volumes = []protocol.Volume{{HostPath: "relative", ContainerPath: "/x"}}
	if _, err := w.plane.Operator.CreateTaskUnchecked(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	failed := w.reaches(bad.ID, protocol.StatusFailed)
	for _, want := range []string{"working_dir", "memory_bytes", "volumes[0].host_path"} {
		if !strings.Contains(failed.Outcome.ErrorMessage, want) {
			t.Errorf("%q does not name %s", failed.Outcome.ErrorMessage, want)
		}
	}
	if failed.Outcome.Reason != protocol.ReasonInvalidSpec || len(w.containers()) != 0 {
		t.Errorf("%+v, containers %v", failed.Outcome, w.containers())
	}
	w.submit(w.task(w.agent.NodeID+"-next", "exit", "0"))
	w.reaches(w.agent.NodeID+"-next", protocol.StatusCompleted)
	w.gone(w.agent.NodeID + "-next")
}

func TestPreconditionsAreRefusedWithTheirOwnReason(t *testing.T) {
	onEachRuntime(t, "", preconditions)
}

func preconditions(t *testing.T, on runtime.Name) {
	w := newWorldOn(t, on, devserver.Features{})
	w.start()
	cases := map[string]struct {
		spoil  func(*protocol.Task)
		reason protocol.Reason
	}{
		"etc": {func(task *protocol.Task) { task.Volumes = []protocol.Volume{{HostPath: "/etc", ContainerPath: "/x"}} }, protocol.ReasonVolumeDenied},
		"socket": {func(task *protocol.Task) {
			task.Volumes = []protocol.Volume{{HostPath: "/var/run/docker.sock", ContainerPath: "/x"}}
		}, protocol.ReasonVolumeDenied},
		"state": {func(task *protocol.Task) {
			task.Volumes = []protocol.Volume{{HostPath: w.agent.StateDir(), ContainerPath: "/x"}}
		}, protocol.ReasonVolumeDenied},
		"noimage": {func(task *protocol.Task) { task.Image = shared.images.Ref("heteroflow/absent:v1") }, protocol.ReasonImageNotFound},
		"noauth": {func(task *protocol.Task) {
			task.Image = shared.images.Ref("heteroflow/absent:v2")
			task.RegistryAuth = nil
		}, protocol.ReasonRegistryDenied},
		"program": {func(task *protocol.Task) { task.Command = []string{"/no/such/program"} }, protocol.ReasonStartFailed},
	}
	for name, tc := range cases {
		task := w.task(w.agent.NodeID+"-"+name, "exit", "0")
		tc.spoil(&task)
		w.submit(task)
		failed := w.reaches(task.ID, protocol.StatusFailed)
		if failed.Outcome.Reason != tc.reason || failed.Outcome.ErrorMessage == "" || failed.Outcome.ExitCode != nil {
			t.Errorf("%s: %+v, want %s", name, failed.Outcome, tc.reason)
		}
	}
	w.eventually("no container left", func() bool { return len(w.containers()) == 0 })
}

func TestAnOrderlyStopLeavesContainersAndTheNextAgentTakesThemOver(t *testing.T) {
	for how, stop := range map[string]func(*world){
		"an orderly stop": func(w *world) {
			if err := w.agent.Stop(); err != nil {
				w.t.Fatal(err)
			}
			w.beats("state offline", func(hb protocol.Heartbeat) bool { return hb.State == protocol.NodeOffline })
		},
		"kill -9": func(w *world) { w.agent.Kill() },
	} {
		onEachRuntime(t, how, func(t *testing.T, on runtime.Name) {
			w := newWorldOn(t, on, devserver.Features{})
			w.start()
			running, ending := w.agent.NodeID+"-running", w.agent.NodeID+"-ending"
			for _, id := range []string{running, ending} {
				w.submit(w.task(id, "train", "--steps", "100000", "--checkpoint-dir", "/tmp"))
			}
			for _, id := range []string{running, ending} {
				w.prints(id, "step 2")
			}
			before := w.container(running)
			stop(w)
			if got := w.container(running); got.ID != before.ID || got.PID != before.PID {
				t.Fatalf("the container did not survive: %+v, was %+v", got, before)
			}
			// One of them ends while nobody watches.
			if err := syscall.Kill(w.container(ending).PID, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			w.eventually("it ended", func() bool { return !w.container(ending).State.Alive() })

			w.start()
			ended := w.reaches(ending, protocol.StatusFailed)
			if *ended.Outcome.ExitCode != 143 || time.Since(*ended.Outcome.FinishedAt) > patience {
				t.Errorf("the one that ended unwatched: %+v", ended.Outcome)
			}
			w.beats("the other live", func(hb protocol.Heartbeat) bool { return len(hb.LiveTaskIDs) == 1 && hb.LiveTaskIDs[0] == running })
			w.act(running, operator.ActionStop)
			w.reaches(running, protocol.StatusStopped)
			w.gone(running)
			if got := w.agent.Log(); strings.Contains(got, `"level":"error"`) {
				t.Error("the agent logged an error")
			}
			w.eventually("the journal holds no task", func() bool {
				entries, err := os.ReadDir(w.agent.StateDir() + "/tasks")
				return err == nil && len(entries) == 0
			})
		})
	}
}
