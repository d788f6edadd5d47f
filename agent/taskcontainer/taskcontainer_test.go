package taskcontainer_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/heteroflow/node-agent/agent/pathfence"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var limits = runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 2}

func task(change ...func(*protocol.Task)) protocol.Task {
	t := protocol.Task{ID: "7", Status: protocol.StatusRunning, NodeID: "node-1", Generation: 3, Image: "app:v1"}
	for _, f := range change {
		f(&t)
	}
	return t
}

// builder is one whose fence is around dir.
func builder(t testing.TB, dir string) taskcontainer.Builder {
	t.Helper()
	fence, err := pathfence.New(pathfence.Config{Allow: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	return taskcontainer.Builder{Fence: fence, LogLimits: limits}
}

// share is a directory tasks may mount, with one below it.
func share(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestATaskBecomesTheContainerItAsksFor(t *testing.T) {
	dir := share(t)
	data := filepath.Join(dir, "data")
	cases := map[string]struct {
		change func(*protocol.Task)
		want   func(*runtime.Spec) // changes of the plainest container's spec, labels aside
	}{
		"the plainest task": {func(*protocol.Task) {}, func(*runtime.Spec) {}},
		"what is run in it": {
			func(t *protocol.Task) {
				t.Command, t.Args, t.WorkingDir, t.User = []string{"/run"}, []string{"-x"}, "/work", "1000:1000"
			},
			func(s *runtime.Spec) {
				s.Entrypoint, s.Args, s.WorkingDir, s.User = []string{"/run"}, []string{"-x"}, "/work", "1000:1000"
			},
		},
		"an environment, of which names without a value are dropped": {
			func(t *protocol.Task) { t.Env = []string{"A=1", "AWS_SECRET_ACCESS_KEY", "B=", "C=x=y"} },
			func(s *runtime.Spec) { s.Env = []string{"A=1", "B=", "C=x=y"} },
		},
		"the host's network and ipc": {
			func(t *protocol.Task) { t.Network, t.IPC = protocol.NetworkHost, protocol.IPCHost },
			func(s *runtime.Spec) { s.Network.Mode, s.IPC = runtime.NetworkHost, runtime.IPCHost },
		},
		"no network": {
			func(t *protocol.Task) { t.Network = protocol.NetworkNone },
			func(s *runtime.Spec) { s.Network.Mode = runtime.NetworkNone },
		},
		"ports, tcp unless said": {
			func(t *protocol.Task) {
				t.Ports = []protocol.Port{{ContainerPort: 80, HostPort: 8080}, {ContainerPort: 65535, HostPort: 1, Protocol: protocol.ProtocolUDP}}
			},
			func(s *runtime.Spec) {
				s.Network.Ports = []runtime.Port{{Container: 80, Host: 8080, Protocol: "tcp"}, {Container: 65535, Host: 1, Protocol: "udp"}}
			},
		},
		"limits": {
			func(t *protocol.Task) { t.CPUs, t.MemoryBytes, t.PIDsLimit, t.ShmSizeBytes = 1.5, 1<<30, 100, 1<<20 },
			func(s *runtime.Spec) {
				s.Resources = runtime.Resources{CPUs: 1.5, MemoryBytes: 1 << 30, PidsLimit: 100, ShmSizeBytes: 1 << 20}
			},
		},
		"volumes": {
			func(t *protocol.Task) {
				t.Volumes = []protocol.Volume{{HostPath: data, ContainerPath: "/data", ReadOnly: true}, {HostPath: dir, ContainerPath: "/all"}}
			},
			func(s *runtime.Spec) {
				s.Mounts = []runtime.Mount{{Source: data, Target: "/data", ReadOnly: true}, {Source: dir, Target: "/all"}}
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := builder(t, dir).Build(task(tc.change), taskcontainer.Devices{}, zap.NewNop())
			if err != nil {
				t.Fatal(err)
			}
			want := runtime.Spec{
				Name: "task-7", Image: "app:v1", Network: runtime.Network{Mode: runtime.NetworkBridge}, IPC: runtime.IPCPrivate,
				Logs: limits, Labels: got.Spec.Labels,
			}
			tc.want(&want)
			if diff := cmp.Diff(want, got.Spec); diff != "" {
				t.Error(diff)
			}
			if len(got.Expect.Volumes) != len(want.Mounts) {
				t.Errorf("%d volumes to verify, want %d", len(got.Expect.Volumes), len(want.Mounts))
			}
		})
	}
}

func TestAReadOnlyVolumeIsSoWithAllThatIsMountedBelowIt(t *testing.T) {
	dir := share(t)
	for _, point := range []string{"nfs", "nfs/home", "own"} {
		point = filepath.Join(dir, point)
		if err := os.Mkdir(point, 0o700); err != nil {
			t.Fatal(err)
		}
		switch err := syscall.Mount("none", point, "tmpfs", 0, ""); {
		case errors.Is(err, syscall.EPERM):
			t.Skipf("mounting needs root: %v", err)
		case err != nil:
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	built, err := builder(t, dir).Build(task(func(t *protocol.Task) {
		t.Volumes = []protocol.Volume{
			{HostPath: dir, ContainerPath: "/data", ReadOnly: true},
			{HostPath: dir + "/own", ContainerPath: "/data/own"}, // the task has this one written to
			{HostPath: dir, ContainerPath: "/work"},
		}
	}), taskcontainer.Devices{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	want := []runtime.Mount{
		{Source: dir, Target: "/data", ReadOnly: true},
		{Source: dir + "/nfs", Target: "/data/nfs", ReadOnly: true},
		{Source: dir + "/nfs/home", Target: "/data/nfs/home", ReadOnly: true},
		{Source: dir + "/own", Target: "/data/own"},
		{Source: dir, Target: "/work"},
	}
	if diff := cmp.Diff(want, built.Spec.Mounts); diff != "" {
		t.Error(diff)
	}
}

func TestADroppedEnvironmentEntryIsLoggedByItsName(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	if _, err := builder(t, share(t)).Build(task(func(t *protocol.Task) { t.Env = []string{"TOKEN", "A=1"} }), taskcontainer.Devices{}, zap.New(core)); err != nil {
		t.Fatal(err)
	}
	if logs.Len() != 1 || logs.All()[0].ContextMap()["name"] != "TOKEN" {
		t.Errorf("logged %v", logs.All())
	}
}

func TestATaskThatIsRefusedSaysForWhatReasonAndNamesEveryProblem(t *testing.T) {
	dir := share(t)
	cases := map[string]struct {
		change func(*protocol.Task)
		reason protocol.Reason
		says   []string
	}{
		"an image that is no reference": {
			func(t *protocol.Task) { t.Image = "UPPER/case" }, protocol.ReasonInvalidSpec, []string{"UPPER/case"},
		},
		"a shm size on the host's": {
			func(t *protocol.Task) { t.IPC, t.ShmSizeBytes = protocol.IPCHost, 1 }, protocol.ReasonInvalidSpec, []string{"shm"},
		},
		"more labels than a daemon should load": {
			func(t *protocol.Task) { t.Labels = map[string]string{"k": strings.Repeat("x", runtime.MaxLabelBytes)} },
			protocol.ReasonInvalidSpec,
			[]string{"labels"},
		},
		"every volume outside the fence": {
			func(t *protocol.Task) {
				t.Volumes = []protocol.Volume{
					{HostPath: "/etc", ContainerPath: "/a"}, {HostPath: dir, ContainerPath: "/b"}, {HostPath: dir + "/none", ContainerPath: "/c"},
				}
			},
			protocol.ReasonVolumeDenied,
			[]string{"volumes[0].host_path", "volumes[2].host_path"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := builder(t, dir).Build(task(tc.change), taskcontainer.Devices{}, zap.NewNop())
			refused, ok := errors.AsType[*taskcontainer.RefusedError](err)
			if !ok || refused.Reason != tc.reason {
				t.Fatalf("got %v, want %s", err, tc.reason)
			}
			for _, says := range tc.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%q does not say %q", err, says)
				}
			}
			if strings.Contains(err.Error(), "volumes[1]") {
				t.Errorf("%q names a volume that is allowed", err)
			}
		})
	}
}

// identified is the container of a task as a daemon would list it.
func identified(t testing.TB, change ...func(*protocol.Task)) (runtime.Container, taskcontainer.Blueprint) {
	t.Helper()
	built, err := taskcontainer.Builder{LogLimits: limits}.Build(task(change...), taskcontainer.Devices{}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return runtime.Container{ID: "c1", Name: built.Spec.Name, Labels: built.Spec.Labels}, built
}

func TestNoLabelOfATaskStandsForOneOfTheAgents(t *testing.T) {
	c, _ := identified(t, func(t *protocol.Task) {
		t.Labels = map[string]string{taskcontainer.LabelNodeID: "node-2", taskcontainer.LabelGeneration: "9", "team": "blue"}
	})
	id, err := taskcontainer.Identify(c, "node-1")
	if err != nil || id.Generation != 3 || c.Labels["team"] != "blue" {
		t.Errorf("got %+v, %v from %v", id, err, c.Labels)
	}
}

func TestWhatALaterAgentNeedsComesBackFromTheLabels(t *testing.T) {
	cases := map[string]func(*protocol.Task){
		"the plainest task": func(*protocol.Task) {},
		"one with all that supervision needs": func(t *protocol.Task) {
			t.TimeoutSeconds, t.StopGraceSeconds, t.Network = 3600, new(int64(0)), protocol.NetworkHost
			t.HealthCheck = &protocol.HealthCheck{Type: protocol.HealthHTTP, Path: "/healthz?a=b", Port: 8000, InitialDelaySeconds: 300}
			t.Labels = map[string]string{"team": "blue"}
		},
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			c, built := identified(t, change)
			got, err := taskcontainer.Identify(c, "node-1")
			if err != nil {
				t.Fatal(err)
			}
			want := taskcontainer.Identity{TaskID: "7", Generation: 3, Supervision: built.Supervision}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			for k, v := range taskcontainer.OwnLabels("node-1") {
				if c.Labels[k] != v {
					t.Errorf("label %s is %q: not found by its node", k, c.Labels[k])
				}
			}
		})
	}
	if _, built := identified(t); built.Supervision.Grace != 30*time.Second || built.Supervision.Network != protocol.NetworkBridge {
		t.Errorf("defaults: %+v", built.Supervision)
	}
}

func TestAContainerThatIsNotQuiteThisNodesTaskIsRefused(t *testing.T) {
	cases := map[string]func(*runtime.Container){
		"another node's":               func(c *runtime.Container) { c.Labels[taskcontainer.LabelNodeID] = "node-2" },
		"nobody's":                     func(c *runtime.Container) { delete(c.Labels, taskcontainer.LabelNodeID) },
		"without labels":               func(c *runtime.Container) { c.Labels = nil },
		"with another name":            func(c *runtime.Container) { c.Name = "task-8" },
		"a copy under another name":    func(c *runtime.Container) { c.Name = "task-7-copy" },
		"without a task":               func(c *runtime.Container) { delete(c.Labels, taskcontainer.LabelTaskID) },
		"with an invalid task":         func(c *runtime.Container) { c.Labels[taskcontainer.LabelTaskID], c.Name = "../7", "task-../7" },
		"without a generation":         func(c *runtime.Container) { delete(c.Labels, taskcontainer.LabelGeneration) },
		"with a word for a generation": func(c *runtime.Container) { c.Labels[taskcontainer.LabelGeneration] = "three" },
		"with a generation too large":  func(c *runtime.Container) { c.Labels[taskcontainer.LabelGeneration] = strings.Repeat("9", 30) },
		"with a negative generation":   func(c *runtime.Container) { c.Labels[taskcontainer.LabelGeneration] = "-1" },
		"without its spec":             func(c *runtime.Container) { delete(c.Labels, taskcontainer.LabelSpec) },
		"with a cut spec":              func(c *runtime.Container) { c.Labels[taskcontainer.LabelSpec] = `{"grace":1` },
		"with an empty spec":           func(c *runtime.Container) { c.Labels[taskcontainer.LabelSpec] = `{}` },
		"with nothing for a spec":      func(c *runtime.Container) { c.Labels[taskcontainer.LabelSpec] = `null` },
		"with a negative time limit": func(c *runtime.Container) {
			c.Labels[taskcontainer.LabelSpec] = `{"timeout":-1,"grace":1,"network":"none"}`
		},
		"with a negative grace": func(c *runtime.Container) { c.Labels[taskcontainer.LabelSpec] = `{"grace":-1,"network":"none"}` },
	}
	for name, spoil := range cases {
		t.Run(name, func(t *testing.T) {
			c, _ := identified(t)
			spoil(&c)
			if id, err := taskcontainer.Identify(c, "node-1"); err == nil {
				t.Errorf("taken for %+v", id)
			}
		})
	}
}

func FuzzIdentifyTakesOnlyWhatNamesItsTaskTwice(f *testing.F) {
	f.Add("task-7", "7", "node-1", "3", `{"grace":30000000000,"network":"bridge"}`)
	f.Add("task-7", "8", "node-1", "3", `{}`)
	f.Add("", "", "", "", "")
	f.Add("task-../7", "../7", "node-1", "-1", "null")
	f.Fuzz(func(t *testing.T, name, taskID, node, generation, spec string) {
		c := runtime.Container{Name: name, Labels: map[string]string{
			taskcontainer.LabelTaskID: taskID, taskcontainer.LabelNodeID: node,
			taskcontainer.LabelGeneration: generation, taskcontainer.LabelSpec: spec,
		}}
		id, err := taskcontainer.Identify(c, "node-1")
		if err != nil {
			return
		}
		if node != "node-1" || id.TaskID != taskID || name != "task-"+taskID || !protocol.ValidTaskID(taskID) {
			t.Errorf("container %q of node %q and task %q was taken for %+v", name, node, taskID, id)
		}
		if id.Generation < 0 || id.Timeout < 0 || id.Grace < 0 {
			t.Errorf("impossible: %+v", id)
		}
	})
}
