package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/docker/orphan"
	"github.com/heteroflow/node-agent/runtime/peer"
)

// A run is lost when Docker has begun it and does not know of it. Docker stores that a
// container runs after it has started it: a daemon that is killed in between has the
// container as it was before, created or ended, while its program ran or runs. Nobody reads
// the output of such a program, and nobody will learn its exit code.
//
// What gives it away lies outside of what Docker tells: early in each start it writes the
// container's hostname file anew, and when a start fails it stores an error. So a file that
// is younger than all that Docker knows of the container, without an error, is that of a
// start that was cut off. Whether the program got to run cannot be told from it; it counts
// as if it had, since nothing may run twice.
//
// A containerd that dies within a start leaves the same: Docker takes the start for a failed
// one and stores the error of the connection, while the program may have run or run still.
// Only where containerd could not even be asked is it known that nothing has run.

// unanswered tells from the error of a start that containerd was asked and did not answer. Its
// client says the class of an error last.
func unanswered(startError string) bool {
	return strings.HasSuffix(startError, ": unavailable") && !unasked(startError)
}

// unasked tells from the error of a start that containerd could not be asked: to start the
// program, at any rate.
func unasked(startError string) bool {
	return strings.Contains(strings.ToLower(startError), "error while dialing")
}

// sinceLost returns when Docker began the run that it lost, zero if it lost none. A data
// directory that cannot be seen from here tells nothing.
func (r *Runtime) sinceLost(ctx context.Context, c runtime.Container) (time.Time, error) {
	if c.State.Alive() || c.StartError != "" && !unanswered(c.StartError) {
		return time.Time{}, nil
	}
	began, err := r.lastBegun(ctx, c.ID)
	if err != nil {
		return time.Time{}, err
	}
	known := c.StartedAt
	if c.Exit != nil {
		known = latest(c.Exit.FinishedAt, known)
	}
	switch {
	case began.After(known):
		return began, nil
	case c.StartError != "": // whether or not its time can be seen
		return latest(c.CreatedAt, known), nil
	}
	return time.Time{}, nil
}

// lastBegun is when the last start of a container began, zero if that cannot be seen.
func (r *Runtime) lastBegun(ctx context.Context, id string) (time.Time, error) {
	root, err := r.dataRoot(ctx)
	if err != nil || !filepath.IsAbs(root) {
		return time.Time{}, err
	}
	file, err := os.Stat(filepath.Join(root, "containers", id, "hostname"))
	if err != nil {
		return time.Time{}, nil //nolint:nilerr // it never was in a start, or this is not the daemon's host
	}
	return file.ModTime().UTC(), nil
}

// dataRoot is where the daemon keeps its containers.
func (r *Runtime) dataRoot(ctx context.Context) (string, error) {
	if root := r.root.Load(); root != nil {
		return *root, nil
	}
	var root string
	err := r.call(ctx, r.timeouts.Query, func(ctx context.Context, api *client.Client) error {
		reply, err := api.Info(ctx, client.InfoOptions{})
		root = reply.Info.DockerRootDir
		return err
	})
	if err == nil {
		r.root.Store(&root)
	}
	return root, err
}

// lost is a run that Docker lost.
type lost struct {
	began  time.Time // zero: it lost none
	living []int     // the processes of it
	hidden bool      // whether there are any cannot be seen from here
}

// findLost looks for a run of the container that Docker lost, and returns what Docker knew of
// the container last.
func (r *Runtime) findLost(ctx context.Context, c runtime.Container) (now runtime.Container, found lost, err error) {
	if began, err := r.sinceLost(ctx, c); err != nil || began.IsZero() {
		return c, found, err
	}
	if found.hidden = !r.seesProcesses(); !found.hidden {
		living, err := orphan.Scan(r.proc)
		if err != nil {
			return c, found, err
		}
		found.living = living[c.ID]
	}
	// Or else the daemon is starting the container just now. It holds a container's lock as
	// long as it does so, and answers this when it has finished.
	if now, err = r.inspect(ctx, c.ID); err == nil {
		found.began, err = r.sinceLost(ctx, now)
	}
	return now, found, err
}

// withLost is the container with the run that Docker lost, if it lost one. While something
// of that run lives the container is as Docker has it, which it does not stay: the next
// Start, Remove or Sweep ends what lives.
func (r *Runtime) withLost(ctx context.Context, c runtime.Container) (runtime.Container, error) {
	c, run, err := r.findLost(ctx, c)
	if err != nil || run.began.IsZero() || len(run.living) > 0 {
		return c, err
	}
	message := "Docker was killed within the start of the container and lost the run"
	if c.StartError != "" {
		message = "Docker had no answer from containerd to the start of the container and lost the run: " + c.StartError
	}
	if run.hidden {
		message += "; whether it goes on cannot be seen from here, for want of the host's process ids"
		r.log.Warn("whether a run that Docker does not know of goes on cannot be seen: the agent has not the host's pid namespace",
			zap.String("container_id", c.ID), zap.String("container_name", c.Name))
	}
	c.State, c.StartedAt, c.StartError, c.Exit = runtime.StateExited, run.began, "", &runtime.Exit{Message: message}
	return c, nil
}

// endLost tells whether Docker lost a run of the container, and kills what lives of it.
func (r *Runtime) endLost(ctx context.Context, c runtime.Container) (found bool, err error) {
	c, run, err := r.findLost(ctx, c)
	if err != nil || run.began.IsZero() || len(run.living) == 0 {
		return !run.began.IsZero(), err
	}
	r.log.Warn("killing what runs of a container and Docker does not know of: it lost the run within the start",
		zap.String("container_id", c.ID), zap.String("container_name", c.Name), zap.Time("begun", run.began), zap.Ints("pids", run.living))
	return true, r.end(ctx, c.ID)
}

// endUnstarted kills what lives of a container whose program was never started: its shim, and
// what waits in its place to become the program. Docker does not know of them either.
func (r *Runtime) endUnstarted(ctx context.Context, c runtime.Container) error {
	if c.State.Alive() || !unasked(c.StartError) || !r.seesProcesses() {
		return nil
	}
	return r.end(ctx, c.ID)
}

// endLeft kills what lives of a container that Docker has removed: a shim that a containerd
// which was killed has no task of any more.
func (r *Runtime) endLeft(ctx context.Context, c runtime.Container) error {
	if !r.seesProcesses() {
		return nil
	}
	living, err := orphan.Scan(r.proc)
	if err != nil || len(living[c.ID]) == 0 {
		return err
	}
	r.log.Warn("killing what Docker has left of a container that it removed",
		zap.String("container_id", c.ID), zap.String("container_name", c.Name), zap.Ints("pids", living[c.ID]))
	return r.end(ctx, c.ID)
}

// end kills the processes of a container.
func (r *Runtime) end(ctx context.Context, id string) error {
	bounded, cancel := context.WithTimeout(ctx, r.timeouts.StopMargin)
	defer cancel()
	if err := orphan.End(bounded, r.proc, id); err != nil {
		return fmt.Errorf("%w: %w", runtime.ErrStopTimeout, err)
	}
	return nil
}

// clear ends what Docker does not know of in a container that it says not to run, and tells
// whether a run of it was lost. Its error is ErrStopTimeout when something does not end.
func (r *Runtime) clear(ctx context.Context, c runtime.Container) (lost bool, err error) {
	if err := r.endUnstarted(ctx, c); err != nil {
		return false, err
	}
	return r.endLost(ctx, c)
}

// seesProcesses tells whether the daemon is one of the processes that can be seen from
// here.
func (r *Runtime) seesProcesses() bool {
	socket, local := strings.CutPrefix(r.host, "unix://")
	if !local {
		return false
	}
	pid, err := peer.Of(socket)
	return err == nil && pid > 0
}

// Sweep ends what lives of runs that Docker began and does not know of, in containers with
// these labels that this package made. All others are left alone.
func (r *Runtime) Sweep(ctx context.Context, labels map[string]string) error {
	if !r.seesProcesses() {
		return nil
	}
	living, err := orphan.Scan(r.proc)
	if err != nil {
		return fmt.Errorf("sweep docker: %w", err)
	}
	if len(living) == 0 {
		return nil
	}
	all, err := r.list(ctx, withLabels(labels).Add("label", runtime.LabelSpecHash))
	if err != nil {
		return fmt.Errorf("sweep docker: %w", err)
	}
	var errs []error
	for _, c := range all {
		if c.State.Alive() || len(living[c.ID]) == 0 {
			continue
		}
		known, err := r.inspect(ctx, c.ID)
		if err == nil {
			_, err = r.endLost(ctx, known)
		}
		if err != nil && !errors.Is(err, runtime.ErrNotFound) {
			errs = append(errs, fmt.Errorf("sweep container %s: %w", c.ID, err))
		}
	}
	return errors.Join(errs...)
}
