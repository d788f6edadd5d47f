package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/containerd/containerd/api/services/tasks/v1"
	tasktypes "github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd/logfile"
	"github.com/heteroflow/node-agent/runtime/containerd/oom"
	"github.com/heteroflow/node-agent/runtime/containerd/record"
)

// observed is what containerd and our records know of one container at one moment.
type observed struct {
	record containers.Container
	meta   meta
	task   *tasktypes.Process // nil: containerd has none
	run    *record.Run        // nil: it was never asked to start
	boot   string             // on which the agent looks
	exit   *runtime.Exit      // nil unless it has ended
}

// observe looks at one container.
func (r *Runtime) observe(ctx context.Context, id string) (observed, error) {
	c, err := r.client.ContainerService().Get(ctx, id)
	if err != nil {
		return observed{}, err
	}
	task, err := r.task(ctx, id)
	if err != nil {
		return observed{}, err
	}
	o, err := r.join(c, task)
	if err == nil && o.state() == runtime.StateExited {
		o.exit = r.exitOf(ctx, o)
	}
	return o, err
}

// task returns containerd's task of a container, nil if there is none.
func (r *Runtime) task(ctx context.Context, id string) (*tasktypes.Process, error) {
	answer, err := r.client.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: id})
	if err != nil {
		if err = errgrpc.ToNative(err); errdefs.IsNotFound(err) {
			return nil, nil
		}
		return nil, err
	}
	return answer.Process, nil
}

// join adds our records to containerd's.
func (r *Runtime) join(c containers.Container, task *tasktypes.Process) (observed, error) {
	m, _, err := metaOf(c)
	if err != nil {
		return observed{}, err
	}
	o := observed{record: c, meta: m, task: task, boot: r.boot}
	run, err := r.dir(c.ID).Run()
	switch {
	case err == nil:
		o.run = &run
	case errors.Is(err, fs.ErrNotExist):
	default:
		// A record that cannot be read is the record of a run all the same.
		o.run = &record.Run{}
	}
	return o, nil
}

func (o observed) state() runtime.State {
	started := o.run != nil && o.run.MayHaveRun(o.boot)
	if o.task == nil {
		if started {
			return runtime.StateExited
		}
		return runtime.StateCreated
	}
	switch o.task.Status {
	case tasktypes.Status_CREATED:
		return runtime.StateCreated // its start is under way, or was cut short
	case tasktypes.Status_RUNNING:
		return runtime.StateRunning
	case tasktypes.Status_PAUSED, tasktypes.Status_PAUSING:
		return runtime.StatePaused
	case tasktypes.Status_STOPPED:
		if !started {
			return runtime.StateCreated // of a start that failed
		}
		return runtime.StateExited
	case tasktypes.Status_UNKNOWN:
		return runtime.StateUnknown
	default:
		return runtime.StateUnknown
	}
}

// exitOf says how an ended container ended: from the log shim's record, else from
// containerd, which forgets it when it is restarted, else not at all.
func (r *Runtime) exitOf(ctx context.Context, o observed) *runtime.Exit {
	exit := &runtime.Exit{}
	recorded, err := r.dir(o.record.ID).Exit(o.run.ID)
	switch {
	case err == nil:
		exit.Code, exit.FinishedAt = new(recorded.Code), recorded.FinishedAt
		if recorded.OOMKilled != nil {
			exit.OOMKilled = *recorded.OOMKilled
			return exit
		}
	case o.task == nil:
		exit.Message = fmt.Sprintf("how it ended is lost: containerd has no task of it and there is no record: %v", err)
		return exit
	default:
		if at := o.task.ExitedAt.AsTime(); o.task.ExitedAt.IsValid() && at.Unix() > 0 {
			exit.Code, exit.FinishedAt = new(int(o.task.ExitStatus)), at
		}
	}
	kills, err := r.oomKills(ctx, o)
	if err != nil {
		exit.Message = fmt.Sprintf("whether memory ran out is not known: %v", err)
	}
	exit.OOMKilled = kills > 0
	return exit
}

// oomKills asks for the cgroup's own count, which is there until the task is deleted.
func (r *Runtime) oomKills(ctx context.Context, o observed) (uint64, error) {
	id := o.record.ID
	if o.task == nil {
		return 0, errors.New("its cgroup has gone")
	}
	answer, err := r.client.TaskService().Metrics(ctx, &tasks.MetricsRequest{Filters: []string{"id==" + id}})
	if err != nil {
		return 0, errgrpc.ToNative(err)
	}
	for _, m := range answer.Metrics {
		if m.ID == id {
			return oom.Kills(m.Data.GetTypeUrl(), m.Data.GetValue())
		}
	}
	return 0, errors.New("no metrics of the task")
}

// container is the observed in the words of the interface.
func (o observed) container() runtime.Container {
	c := runtime.Container{
		ID: o.record.ID, Name: o.meta.Name, Image: o.meta.Image, Labels: o.meta.Labels,
		State: o.state(), CreatedAt: o.record.CreatedAt, Exit: o.exit,
	}
	switch {
	case o.run == nil:
	case c.State == runtime.StateCreated:
		c.StartError = o.run.StartError
	default:
		c.StartedAt = o.run.StartedAt
	}
	if o.task != nil && c.State.Alive() {
		c.PID = int(o.task.Pid)
		if o.run != nil {
			c.IP = o.run.IP
		}
	}
	return c
}

// Inspect returns everything known of one container.
func (r *Runtime) Inspect(ctx context.Context, idOrName string) (runtime.Container, error) {
	id := idOrName
	if !validID(id) {
		// A name that containerd could not take for an id.
		if !namePattern.MatchString(idOrName) {
			return runtime.Container{}, checkID(id)
		}
		id = containerID(idOrName)
	}
	call, cancel := r.bound(ctx, readTimeout)
	defer cancel()
	o, err := r.observe(call, id)
	if err != nil {
		return runtime.Container{}, translate(ctx, "inspect container "+idOrName, err)
	}
	return o.container(), nil
}

// List takes one call for the containers and one for their tasks; only for a container
// whose task has vanished without a record is the daemon asked once more.
func (r *Runtime) List(ctx context.Context, labels map[string]string) ([]runtime.Container, error) {
	call, cancel := r.bound(ctx, readTimeout)
	defer cancel()
	all, err := r.observeAll(call)
	if err != nil {
		return nil, translate(ctx, "list containers", err)
	}
	var list []runtime.Container
	for _, o := range all {
		if !carries(o.meta.Labels, labels) {
			continue
		}
		state := o.state()
		if state == runtime.StateExited && o.task == nil {
			state = r.vanished(call, o)
		}
		list = append(list, runtime.Container{
			ID: o.record.ID, Name: o.meta.Name, Image: o.meta.Image, Labels: o.meta.Labels,
			State: state, CreatedAt: o.record.CreatedAt,
		})
	}
	return list, nil
}

// vanished: containerd leaves a task out of its list when the task's shim does not
// answer in time, and then it may well be running.
func (r *Runtime) vanished(ctx context.Context, o observed) runtime.State {
	if _, err := r.dir(o.record.ID).Exit(o.run.ID); err == nil {
		return runtime.StateExited
	}
	task, err := r.task(ctx, o.record.ID)
	if err != nil {
		return runtime.StateUnknown
	}
	o.task = task
	return o.state()
}

// observeAll looks at all containers, without their exits, in two calls. The tasks come
// first: one that ends in between is then reported as it was.
func (r *Runtime) observeAll(ctx context.Context) ([]observed, error) {
	answer, err := r.client.TaskService().List(ctx, &tasks.ListTasksRequest{})
	if err != nil {
		return nil, errgrpc.ToNative(err)
	}
	byID := map[string]*tasktypes.Process{}
	for _, task := range answer.Tasks {
		byID[task.ID] = task
	}
	records, err := r.client.ContainerService().List(ctx)
	if err != nil {
		return nil, err
	}
	var all []observed
	for _, c := range records {
		o, err := r.join(c, byID[c.ID])
		if err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b observed) int { return a.record.CreatedAt.Compare(b.record.CreatedAt) })
	return all, nil
}

func carries(have, want map[string]string) bool {
	for key, value := range maps.All(want) {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// Logs reads the end of the output from the log shim's files.
func (r *Runtime) Logs(ctx context.Context, id string, opts runtime.LogOptions) ([]byte, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	if opts.TailBytes <= 0 {
		return nil, fmt.Errorf("%w: tail of %d bytes", runtime.ErrInvalid, opts.TailBytes)
	}
	call, cancel := r.bound(ctx, readTimeout)
	defer cancel()
	what := "read logs of container " + id
	c, err := r.client.ContainerService().Get(call, id)
	if err != nil {
		return nil, translate(ctx, what, err)
	}
	m, _, err := metaOf(c)
	if err != nil {
		return nil, translate(ctx, what, err)
	}
	out, err := logfile.Tail(r.dir(id).Logs(), max(m.Logs.MaxFiles, 1), opts.TailBytes, opts.Since)
	return out, translate(ctx, what, err)
}
