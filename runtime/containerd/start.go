package containerd

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/crashpoint"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd/logshim"
	"github.com/heteroflow/node-agent/runtime/containerd/record"
)

// Start ensures the container has been started; one that has ended is started anew.
func (r *Runtime) Start(ctx context.Context, id string) error { return r.StartIf(ctx, id, nil) }

// StartIf is Start with a look before the program runs: see [runtime.Gated].
func (r *Runtime) StartIf(ctx context.Context, id string, ready func(pid int) error) error {
	if err := checkID(id); err != nil {
		return err
	}
	what := "start container " + id
	release, err := r.locks.take(ctx, id)
	if err != nil {
		return translate(ctx, what, err)
	}
	defer release()
	call, cancel := r.bound(ctx, writeTimeout)
	defer cancel()
	o, err := r.observe(call, id)
	if err != nil {
		return translate(ctx, what, err)
	}
	if o.task != nil {
		switch o.task.Status {
		case tasktypes.Status_RUNNING, tasktypes.Status_PAUSED, tasktypes.Status_PAUSING:
			return nil
		case tasktypes.Status_CREATED, tasktypes.Status_STOPPED, tasktypes.Status_UNKNOWN:
		}
		// Of an earlier run, or of a start that was cut short.
		if err := r.clear(call, o); err != nil {
			return translate(ctx, what, err)
		}
	}
	return translate(ctx, what, r.start(call, o, ready))
}

// start begins a new run of a container that has no task, unless ready, if it is set, has
// something against it.
func (r *Runtime) start(ctx context.Context, o observed, ready func(pid int) error) error {
	id := o.record.ID
	run := record.Run{
		ID: randomID(), StartedAt: time.Now(), UnaskedOn: r.boot,
		LogMaxBytes: o.meta.Logs.MaxBytes, LogMaxFiles: o.meta.Logs.MaxFiles,
	}
	if err := r.dir(id).Begin(run); err != nil {
		return err
	}
	crashpoint.Reach("containerd: run begun")
	// On disk the record need not be before the program runs.
	synced := make(chan error, 1)
	go func() { synced <- r.dir(id).Sync() }()
	ip, pid, err := r.makeTask(ctx, o)
	if err = errors.Join(err, <-synced); err == nil && ready != nil {
		err = ready(pid)
	}
	if err == nil {
		// Until here the task only waits. From here on nobody can tell whether its program ran
		// once the task's traces are gone.
		run.UnaskedOn = ""
		err = r.dir(id).Update(run)
	}
	if err == nil {
		crashpoint.Reach("containerd: start asked")
		_, err = r.client.TaskService().Start(ctx, &tasks.StartRequest{ContainerID: id})
		err = errgrpc.ToNative(err)
	}
	if err != nil {
		if err := r.startFailed(ctx, o, run, err); err != nil {
			return err
		}
	}
	crashpoint.Reach("containerd: task started")
	run.StartedAt, run.IP = time.Now(), ip
	if err := r.dir(id).Update(run); err != nil {
		// It runs, and the record of its beginning says when that was asked for.
		r.options.Log.Warn("start time not recorded", zap.String("container_id", id), zap.Error(err))
	}
	return nil
}

// makeTask gives the container its network and its task, a process in the container that
// waits to become the program.
func (r *Runtime) makeTask(ctx context.Context, o observed) (ip netip.Addr, pid int, err error) {
	id := o.record.ID
	if o.meta.Network.Mode == runtime.NetworkBridge {
		if ip, err = r.network.Up(ctx, id, o.meta.Network.Ports); err != nil {
			return ip, 0, err
		}
		crashpoint.Reach("containerd: network up")
		if err := r.writeHosts(id, o.meta, ip); err != nil {
			return ip, 0, err
		}
	}
	mounts, err := r.client.SnapshotService(o.record.Snapshotter).Mounts(ctx, o.record.SnapshotKey)
	if err != nil {
		return ip, 0, fmt.Errorf("root file system: %w", err)
	}
	request := &tasks.CreateTaskRequest{ContainerID: id, Stdout: r.logURI(id), Stderr: r.logURI(id)}
	for _, m := range mounts {
		request.Rootfs = append(request.Rootfs, &types.Mount{Type: m.Type, Source: m.Source, Target: m.Target, Options: m.Options})
	}
	made, err := r.client.TaskService().Create(ctx, request)
	if err != nil {
		if err = errgrpc.ToNative(err); isUnderWay(err) {
			err = errors.Join(fmt.Errorf("%w: an earlier start of it is still under way: %w", runtime.ErrUnavailable, err), r.deleteTask(ctx, id))
		}
		return ip, 0, err
	}
	crashpoint.Reach("containerd: task made")
	return ip, int(made.Pid), nil
}

// logURI has containerd's shim start the log shim. The shim passes each parameter of the
// URI as two arguments, in no order, so there is only one.
func (r *Runtime) logURI(id string) string {
	u := url.URL{Scheme: "binary", Path: r.options.LogBinary, RawQuery: url.Values{logshim.Command: {string(r.dir(id))}}.Encode()}
	return u.String()
}

// startFailed finds out what an error of a start means: when the daemon's answer was lost
// the program may be running, or have run, and then there is no error.
func (r *Runtime) startFailed(ctx context.Context, o observed, run record.Run, cause error) error {
	id := o.record.ID
	after, cancel := r.detached(ctx)
	defer cancel()
	task, err := r.task(after, id)
	if err != nil {
		return errors.Join(cause, err) // the daemon is away: the record of the run stays
	}
	if task != nil && (task.Status == tasktypes.Status_RUNNING || task.Status == tasktypes.Status_STOPPED) && isLost(cause) {
		return nil
	}
	if isLost(cause) || errors.Is(cause, runtime.ErrUnavailable) {
		return cause // nobody knows: the next start clears what there is
	}
	cause = fmt.Errorf("%w: %w", runtime.ErrStartFailed, cause)
	run.StartedAt, run.StartError = time.Time{}, cause.Error()
	o.task = task
	return errors.Join(cause, r.clear(after, o), r.dir(id).Update(run))
}

// isUnderWay: the daemon is still making a task for somebody who did not wait for it, an
// agent that has died, or has a shim without a task, as one does that was killed at that
// and started again. Of the first nothing runs: whoever asked for the task has not asked to
// start it. Both go when the task is deleted, at once or at a later try.
func isUnderWay(err error) bool {
	return errdefs.IsAlreadyExists(err) || strings.Contains(err.Error(), "file exists") // the directory of the task
}

// isLost: no answer came, so what was asked may have been done.
func isLost(err error) bool {
	return errdefs.IsUnavailable(err) || errdefs.IsDeadlineExceeded(err) || errdefs.IsCanceled(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
