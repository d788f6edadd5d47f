package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/api/services/tasks/v1"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/heteroflow/node-agent/crashpoint"
	"github.com/heteroflow/node-agent/runtime"
)

// Remove kills the container if it runs and removes all that belongs to it, whichever
// parts of it there are: task, network, container, file system, logs, in this order.
func (r *Runtime) Remove(ctx context.Context, id string) error {
	if err := checkID(id); err != nil {
		return err
	}
	release, err := r.locks.take(ctx, id)
	if err == nil {
		defer release()
		call, cancel := r.bound(ctx, writeTimeout)
		defer cancel()
		err = r.remove(call, id)
	}
	return translate(ctx, "remove container "+id, err)
}

func (r *Runtime) remove(ctx context.Context, id string) error {
	c, err := r.client.ContainerService().Get(ctx, id)
	if err != nil && !errdefs.IsNotFound(err) {
		return err
	}
	task, err := r.task(ctx, id)
	if err != nil {
		return err
	}
	if task != nil {
		// Not by way of a record that may be damaged: all that counts is the id.
		o := observed{record: containers.Container{ID: id}, task: task}
		if err := r.kill(ctx, o); err != nil {
			return err
		}
	}
	// Also where there is none: a containerd that was killed while it made or deleted the task
	// may be back with a shim that has none, which it does not list and would keep for ever.
	if err := r.deleteTask(ctx, id); err != nil {
		return err
	}
	if err := r.network.Down(ctx, id); err != nil {
		return err
	}
	crashpoint.Reach("containerd: network gone")
	if err := r.client.ContainerService().Delete(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("delete container: %w", err)
	}
	crashpoint.Reach("containerd: container gone")
	snapshotter := r.options.Snapshotter
	if c.Snapshotter != "" {
		snapshotter = c.Snapshotter // it was made before the configuration changed
	}
	if err := r.client.SnapshotService(snapshotter).Remove(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove root file system: %w", err)
	}
	crashpoint.Reach("containerd: file system gone")
	return os.RemoveAll(string(r.dir(id)))
}

// Sweep finds and removes what crashes have left: tasks, file systems, networks and
// directories without a container, and the tasks and networks of containers with these
// labels that ended while nobody watched. A file system that was made for a container
// without these labels is left: another node's agent may be making that container. Containers
// are never removed, and nothing outside the runtime's namespace and directories is touched.
// What cannot be removed is in the error; the rest is done.
func (r *Runtime) Sweep(ctx context.Context, labels map[string]string) error {
	call, cancel := r.bound(ctx, writeTimeout)
	defer cancel()
	traces, err := r.traces(call, labels)
	errs := []error{err}
	for id, hasTask := range traces {
		if validID(id) {
			errs = append(errs, r.sweepOne(call, id, hasTask, labels))
		}
	}
	return translate(ctx, "sweep containerd", errors.Join(errs...))
}

func quote(label string) string { return `"` + label + `"` }

// traces returns the ids of everything that may be left of a container with these labels,
// and for each whether there is a task.
func (r *Runtime) traces(ctx context.Context, labels map[string]string) (map[string]bool, error) {
	found := map[string]bool{}
	see := func(id string) {
		if _, ok := found[id]; !ok {
			found[id] = false
		}
	}
	var errs []error
	answer, err := r.client.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		errs = append(errs, errgrpc.ToNative(err))
	} else {
		for _, task := range answer.Tasks {
			found[task.ID] = true
		}
	}
	errs = append(errs, r.client.SnapshotService(r.options.Snapshotter).Walk(ctx, func(_ context.Context, info snapshots.Info) error {
		if carries(info.Labels, labels) {
			see(info.Name)
		}
		return nil
	}, "labels."+quote(labelContainer)))
	networks, err := r.network.IDs()
	errs = append(errs, err)
	for _, id := range networks {
		see(id)
	}
	entries, err := os.ReadDir(filepath.Join(r.options.StateDir, r.options.Namespace))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, e := range entries {
		see(e.Name())
	}
	return found, errors.Join(errs...)
}

// sweepOne looks again under the container's lock, so that nothing is taken from under a
// Create or Start that is at work.
func (r *Runtime) sweepOne(ctx context.Context, id string, hasTask bool, labels map[string]string) error {
	release, err := r.locks.take(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	o, err := r.observe(ctx, id)
	if errdefs.IsNotFound(err) {
		r.options.Log.Info("remains without a container removed", zap.String("container_id", id))
		if hasTask {
			if err := r.standIn(ctx, id); err != nil {
				return err
			}
		}
		return r.remove(ctx, id)
	}
	if err != nil {
		return err
	}
	if meta, ours, err := metaOf(o.record); err != nil || !ours || !carries(meta.Labels, labels) {
		return err
	}
	if o.task != nil && o.task.Status == tasktypes.Status_CREATED {
		r.options.Log.Info("start that was cut short undone", zap.String("container_id", id))
		return r.clear(ctx, o)
	}
	if o.state() == runtime.StateExited || o.task == nil {
		return r.clear(ctx, o)
	}
	return nil
}

// standIn makes a container for a task that has none: without, containerd can list the
// task and do nothing to it.
func (r *Runtime) standIn(ctx context.Context, id string) error {
	_, err := r.client.ContainerService().Create(ctx, containers.Container{
		ID: id, Runtime: containers.RuntimeInfo{Name: ociShim}, Spec: &anypb.Any{},
	})
	if err != nil && !errdefs.IsAlreadyExists(err) {
		return fmt.Errorf("stand in for the container of task %s: %w", id, err)
	}
	return nil
}
