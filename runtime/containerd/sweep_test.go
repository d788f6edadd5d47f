package containerd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/opencontainers/image-spec/identity"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd/record"
)

// remains is all that is left of containers anywhere, so that a test can count it.
func (f *fixture) remains(t *testing.T) []string {
	t.Helper()
	ctx := t.Context()
	c := f.client(t)
	var found []string
	containers, err := c.ContainerService().List(ctx)
	for _, container := range containers {
		found = append(found, "container "+container.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range all.Tasks {
		found = append(found, "task "+task.ID)
	}
	if err := c.SnapshotService("overlayfs").Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		if info.Kind == snapshots.KindActive {
			found = append(found, "snapshot "+info.Name)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	held, err := c.LeasesService().List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range held {
		found = append(found, "lease "+lease.ID)
	}
	o := f.options(t)
	for _, pattern := range []string{
		filepath.Join(o.StateDir, namespace, "*"), filepath.Join(o.RunDir, namespace, "netns/*"),
		filepath.Join(o.RunDir, namespace, "ipam/heteroflow/10.*"), filepath.Join(o.RunDir, namespace, "cni/results/*"),
		"/sys/class/net/" + o.Bridge + "/brif/*", "/sys/fs/cgroup/memory/" + namespace + "/*-*", "/sys/fs/cgroup/" + namespace + "/*-*",
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, files...)
	}
	for _, pid := range processesOf(t, "-address", f.socket()) {
		found = append(found, fmt.Sprintf("shim %d", pid))
	}
	slices.Sort(found)
	return found
}

// wantRemains waits until that and no more remains: a shim ends some time after it has said
// that it will, and what is in a network namespace goes some time after its name.
func (f *fixture) wantRemains(t *testing.T, want []string) {
	t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-again.C {
		left := f.remains(t)
		if slices.Equal(left, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("left: %q, want %q", left, want)
			return
		}
	}
}

func TestSweepRemovesWhatACrashLeftAtAnyStep(t *testing.T) {
	// Each step leaves what an agent would that died right after it.
	steps := map[string]func(t *testing.T, f *fixture){
		"a snapshot": func(t *testing.T, f *fixture) { f.leaveSnapshot(t, "task-0") },
		"a directory": func(t *testing.T, f *fixture) {
			if err := os.MkdirAll(filepath.Join(f.options(t).StateDir, namespace, "task-0"), 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"a task without its container": func(t *testing.T, f *fixture) {
			id := f.run(t, f.spec("sleep", "10m"))
			if err := f.client(t).ContainerService().Delete(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		},
		"a network without its container": func(t *testing.T, f *fixture) {
			spec := f.spec("exit", "0")
			spec.Network = runtime.Network{Mode: runtime.NetworkBridge}
			id := f.run(t, spec)
			f.awaitRecord(t, id)
			c := f.client(t)
			_, err := c.TaskService().Delete(t.Context(), &tasks.DeleteTaskRequest{ContainerID: id})
			if err := errors.Join(err, c.ContainerService().Delete(t.Context(), id)); err != nil {
				t.Fatal(err)
			}
		},
	}
	eachFlavour(t, func(t *testing.T, fl flavour) {
		f := setUp(t, fl)
		for name, leave := range steps {
			t.Run(name, func(t *testing.T) {
				before := f.remains(t)
				leave(t, f)
				if left := f.remains(t); len(left) <= len(before) {
					t.Fatalf("nothing was left: %q", left)
				}
				for range 2 {
					if err := f.connect(t).Sweep(t.Context(), nil); err != nil {
						t.Fatal(err)
					}
				}
				f.wantRemains(t, before)
			})
		}
	}, "system-runc", "2.4-runc")
}

func TestSweepLeavesOthersContainersAlone(t *testing.T) {
	f := setUp(t, flavours()[0])
	spec := f.spec("exit", "0")
	spec.Labels = map[string]string{"node": "other"}
	ended := f.run(t, spec)
	f.awaitRecord(t, ended)
	cutShort := f.cutShort(t, map[string]string{"node": "other"})
	before := f.remains(t)
	if err := f.Sweep(t.Context(), map[string]string{"node": "this"}); err != nil {
		t.Fatal(err)
	}
	f.wantRemains(t, before)
	if err := f.Sweep(t.Context(), map[string]string{"node": "other"}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{ended, cutShort} {
		if _, err := f.client(t).TaskService().Get(t.Context(), &tasks.GetRequest{ContainerID: id}); err == nil {
			t.Errorf("the task of %s is still there", id)
		}
	}
}

func TestSweepLeavesWhatAnotherNodesAgentIsMakingAlone(t *testing.T) {
	f := setUp(t, flavours()[0])
	spec := f.spec("exit", "0")
	spec.Labels = map[string]string{"io.heteroflow.node": "other", "io.heteroflow.long": strings.Repeat("x", 5000), "containerd.io/gc.expire": "2026-01-02T03:04:05Z"}
	// As it is while Create is at work: there is a file system, and no container yet.
	if err := f.client(t).ContainerService().Delete(t.Context(), f.create(t, spec)); err != nil {
		t.Fatal(err)
	}
	before := f.remains(t)
	options := f.options(t)
	options.StateDir, options.RunDir = t.TempDir(), t.TempDir()
	neighbour := connect(t, options)
	if err := neighbour.Sweep(t.Context(), map[string]string{"io.heteroflow.node": "this"}); err != nil {
		t.Fatal(err)
	}
	if got := f.remains(t); !slices.Equal(got, before) {
		t.Errorf("left: %q, want %q", got, before)
	}
	if err := neighbour.Sweep(t.Context(), map[string]string{"io.heteroflow.node": "other"}); err != nil {
		t.Fatal(err)
	}
	if got := f.remains(t); slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "snapshot ") }) {
		t.Errorf("left: %q, want no snapshot", got)
	}
}

func (f *fixture) leaveSnapshot(t *testing.T, id string) {
	t.Helper()
	c := f.client(t)
	img, err := c.GetImage(t.Context(), f.image)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := img.RootFS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.SnapshotService("overlayfs").Prepare(t.Context(), id, identity.ChainID(layers).String(),
		snapshots.WithLabels(map[string]string{"io.heteroflow.container": id, "containerd.io/gc.root": "2026-01-02T03:04:05Z"}))
	if err != nil {
		t.Fatal(err)
	}
}

func TestCreateMakesUseOfTheNameThatACrashLeftHalfMade(t *testing.T) {
	f := setUp(t, flavours()[0])
	spec := f.spec("exit", "5")
	f.leaveSnapshot(t, spec.Name)
	id := f.run(t, spec)
	if exit, err := f.Wait(t.Context(), id); err != nil || exit.Code == nil || *exit.Code != 5 {
		t.Errorf("got %+v, %v", exit, err)
	}
}

// cutShort leaves a container whose task was made and not started.
func (f *fixture) cutShort(t *testing.T, labels map[string]string) string {
	t.Helper()
	spec := f.spec("exit", "0")
	spec.Labels = labels
	id := f.create(t, spec)
	c := f.client(t)
	mounts, err := c.SnapshotService("overlayfs").Mounts(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	request := &tasks.CreateTaskRequest{ContainerID: id}
	for _, m := range mounts {
		request.Rootfs = append(request.Rootfs, &types.Mount{Type: m.Type, Source: m.Source, Target: m.Target, Options: m.Options})
	}
	begun := record.Run{ID: "cut short", StartedAt: time.Now()}
	if err := record.Dir(filepath.Join(f.options(t).StateDir, namespace, id)).Begin(begun); err != nil {
		t.Fatal(err)
	}
	if _, err := c.TaskService().Create(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAStartThatWasCutShortIsUndoneOrDoneAgain(t *testing.T) {
	f := setUp(t, flavours()[0])
	state := func(id string) runtime.State { return f.inspect(t, id).State }
	for name, settle := range map[string]func(id string) error{
		"start":  func(id string) error { return f.Start(t.Context(), id) },
		"stop":   func(id string) error { return f.Stop(t.Context(), id, time.Second) },
		"sweep":  func(string) error { return f.Sweep(t.Context(), nil) },
		"remove": func(id string) error { return f.Remove(t.Context(), id) },
	} {
		t.Run(name, func(t *testing.T) {
			id := f.cutShort(t, nil)
			if got := state(id); got != runtime.StateCreated {
				t.Errorf("it is %s", got)
			}
			if err := settle(id); err != nil {
				t.Fatal(err)
			}
			switch name {
			case "start":
				if exit, err := f.Wait(t.Context(), id); err != nil || exit.Code == nil || *exit.Code != 0 {
					t.Errorf("got %+v, %v", exit, err)
				}
			case "stop", "sweep":
				if got := state(id); got != runtime.StateCreated {
					t.Errorf("it is %s, and never ran", got)
				}
			}
			if err := f.Remove(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	f.wantRemains(t, nil)
}

func TestSweepSettlesWhatEndedUnwatchedAndKeepsItsExit(t *testing.T) {
	f := setUp(t, flavours()[0])
	spec := f.spec("exit", "9")
	spec.Network = runtime.Network{Mode: runtime.NetworkBridge, Ports: []runtime.Port{{Container: 80, Host: 28077, Protocol: "tcp"}}}
	ended := f.run(t, spec)
	running := f.run(t, f.spec("sleep", "10m"))
	f.awaitRecord(t, ended)
	if err := f.Sweep(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for _, trace := range f.remains(t) {
		if strings.HasPrefix(trace, "task "+ended) || strings.Contains(trace, "netns") || strings.Contains(trace, "ipam") {
			t.Errorf("left: %s", trace)
		}
	}
	if got := f.inspect(t, ended); got.Exit == nil || got.Exit.Code == nil || *got.Exit.Code != 9 {
		t.Errorf("got %+v", got)
	}
	if got := f.inspect(t, running); got.State != runtime.StateRunning {
		t.Errorf("the one that runs: %+v", got)
	}
	for _, id := range []string{ended, running} {
		if err := f.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	f.wantRemains(t, nil)
}
