package containerd

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/moby/sys/signal"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/crashpoint"
	"github.com/heteroflow/node-agent/runtime"
)

// Stop sends the image's stop signal, SIGTERM if it names none, and after grace SIGKILL.
// The container, its file system and its logs are kept; its task and network go.
func (r *Runtime) Stop(ctx context.Context, id string, grace time.Duration) error {
	if err := checkID(id); err != nil {
		return err
	}
	what := "stop container " + id
	call, cancel := r.bound(ctx, readTimeout)
	defer cancel()
	o, err := r.observe(call, id)
	if err != nil {
		return translate(ctx, what, err)
	}
	if o.task == nil {
		return nil
	}
	if o.task.Status == tasktypes.Status_CREATED {
		return translate(ctx, what, r.settle(ctx, id))
	}
	if o.task.Status != tasktypes.Status_STOPPED {
		if err := r.stopTask(r.in(ctx), o, grace); err != nil {
			return translate(ctx, what, err)
		}
	}
	r.settleOrWarn(ctx, id)
	return nil
}

// stopTask returns once the task has ended.
func (r *Runtime) stopTask(ctx context.Context, o observed, grace time.Duration) error {
	watch, cancel := context.WithCancel(ctx)
	var watchErr error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, err := r.client.TaskService().Wait(watch, &tasks.WaitRequest{ContainerID: o.record.ID})
		if watchErr = errgrpc.ToNative(err); errdefs.IsNotFound(watchErr) {
			watchErr = nil // somebody else has deleted it
		}
	}()
	defer func() { cancel(); <-ended }()

	if grace > 0 {
		if err := r.signal(ctx, o, stopSignal(o.meta), false); err != nil {
			return err
		}
		crashpoint.Reach("containerd: stop signal sent")
		if within(ctx, grace, ended) {
			return watchErr
		}
	}
	if err := r.signal(ctx, o, unix.SIGKILL, true); err != nil {
		return err
	}
	if within(ctx, runtime.StopMargin, ended) {
		return watchErr
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return fmt.Errorf("%w: process %d is still there %v after SIGKILL", runtime.ErrStopTimeout, o.task.Pid, runtime.StopMargin)
}

// within waits for at most d, or until ctx ends.
func within(ctx context.Context, d time.Duration, ended <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func stopSignal(m meta) unix.Signal {
	if s, err := signal.ParseSignal(m.StopSignal); err == nil {
		return s
	}
	return unix.SIGTERM
}

// signal sends a signal to a task, thawing it first where somebody has frozen it. A task
// that has ended is no error.
func (r *Runtime) signal(ctx context.Context, o observed, s unix.Signal, all bool) error {
	call, cancel := r.bound(ctx, readTimeout)
	defer cancel()
	if o.task.Status == tasktypes.Status_PAUSED || o.task.Status == tasktypes.Status_PAUSING {
		_, err := r.client.TaskService().Resume(call, &tasks.ResumeTaskRequest{ContainerID: o.record.ID})
		if err = errgrpc.ToNative(err); err != nil && !errdefs.IsNotFound(err) {
			r.options.Log.Warn("frozen container not thawed", zap.String("container_id", o.record.ID), zap.Error(err))
		}
	}
	_, err := r.client.TaskService().Kill(call, &tasks.KillRequest{ContainerID: o.record.ID, Signal: uint32(s), All: all})
	if err = errgrpc.ToNative(err); errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
