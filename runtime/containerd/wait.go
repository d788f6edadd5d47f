package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/crashpoint"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd/record"
)

// Wait blocks until the container has ended. When it returns, the end is on disk, all
// output is in the logs, and task and network are gone; where that fails, as on a full
// disk, the exit is returned all the same and Sweep does the rest later.
func (r *Runtime) Wait(ctx context.Context, id string) (runtime.Exit, error) {
	if err := checkID(id); err != nil {
		return runtime.Exit{}, err
	}
	what := "wait for container " + id
	call, cancel := r.bound(ctx, readTimeout)
	defer cancel()
	o, err := r.observe(call, id)
	if err != nil {
		return runtime.Exit{}, translate(ctx, what, err)
	}
	switch o.state() {
	case runtime.StateCreated:
		return runtime.Exit{}, fmt.Errorf("%s: %w: it was never started", what, runtime.ErrConflict)
	case runtime.StateExited:
		if o.task == nil {
			return *o.exit, nil
		}
	default:
		// An error here says that the daemon went away, never how the task ended,
		// though its client would make 255 of it.
		if _, err := r.client.TaskService().Wait(r.in(ctx), &tasks.WaitRequest{ContainerID: id}); err != nil {
			return runtime.Exit{}, translate(ctx, what, err)
		}
	}
	r.settleOrWarn(ctx, id)
	call, cancel = r.bound(ctx, readTimeout)
	defer cancel()
	if o, err = r.observe(call, id); err != nil {
		return runtime.Exit{}, translate(ctx, what, err)
	}
	if o.exit == nil {
		return runtime.Exit{}, fmt.Errorf("%s: %w: it has been started again", what, runtime.ErrConflict)
	}
	return *o.exit, nil
}

func (r *Runtime) settleOrWarn(ctx context.Context, id string) {
	if err := r.settle(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		r.options.Log.Warn("ended task not cleared yet", zap.String("container_id", id), zap.Error(err))
	}
}

// settle puts an ended task's exit on disk and takes the task and its network away: a
// task that only waits to be deleted costs a shim of 15 MB. A task that has not ended,
// or none at all, is left as it is.
func (r *Runtime) settle(ctx context.Context, id string) error {
	release, err := r.locks.take(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	call, cancel := r.bound(ctx, writeTimeout)
	defer cancel()
	o, err := r.observe(call, id)
	if err != nil {
		return err
	}
	if o.state().Alive() {
		return nil
	}
	return r.clear(call, o)
}

// clear takes a container's task and network away, after the end of the task, if it has
// run, is on disk. A task that was made and not started is killed; one that runs is an
// error. The caller has the container's lock.
func (r *Runtime) clear(ctx context.Context, o observed) error {
	if o.task != nil {
		if o.task.Status == tasktypes.Status_STOPPED {
			if err := r.keepExit(o); err != nil {
				return err
			}
		} else {
			if err := r.retract(o); err != nil {
				return err
			}
			if err := r.kill(ctx, o); err != nil {
				return err
			}
		}
		crashpoint.Reach("containerd: end kept")
		if err := r.deleteTask(ctx, o.record.ID); err != nil {
			return err
		}
		crashpoint.Reach("containerd: task gone")
	}
	return r.network.Down(ctx, o.record.ID)
}

// retract takes back the record of a run whose task was made and not started: the end of
// that task is not how the program ended.
func (r *Runtime) retract(o observed) error {
	if o.run == nil || o.task.Status != tasktypes.Status_CREATED {
		return nil
	}
	run := *o.run
	run.StartedAt, run.StartError = time.Time{}, "its start was cut short"
	return r.dir(o.record.ID).Update(run)
}

// keepExit writes down what is known of an exit unless the log shim has done so.
func (r *Runtime) keepExit(o observed) error {
	if o.run == nil || o.exit == nil || o.exit.Code == nil {
		return nil
	}
	recorded, err := r.dir(o.record.ID).Exit(o.run.ID)
	if err == nil && recorded.OOMKilled != nil {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.options.Log.Warn("record of an exit replaced", zap.String("container_id", o.record.ID), zap.Error(err))
	}
	exit := record.Exit{Run: o.run.ID, Code: *o.exit.Code, FinishedAt: o.exit.FinishedAt}
	if o.exit.Message == "" {
		exit.OOMKilled = new(o.exit.OOMKilled)
	}
	return r.dir(o.record.ID).End(exit)
}

// kill ends whatever lives of a task and waits for its end.
func (r *Runtime) kill(ctx context.Context, o observed) error {
	if o.task.Status == tasktypes.Status_STOPPED {
		return nil
	}
	return r.stopTask(ctx, o, 0)
}

// deleteTask returns when the log shim has taken the last of the output and has ended.
func (r *Runtime) deleteTask(ctx context.Context, id string) error {
	_, err := r.client.TaskService().Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
	if err = errgrpc.ToNative(err); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("delete task: %w", err)
	}
	return nil
}
