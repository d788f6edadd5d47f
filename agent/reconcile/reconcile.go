// Package reconcile compares, once a minute and at start, what this node has with what the
// control plane believes: containers of an earlier agent are adopted, undelivered results
// tried again, claimed tasks of which nothing has run launched, tasks without a container
// reported lost, and records of tasks that are over dropped.
//
// It ends nothing on a guess. A task is reported lost only when the control plane, asked
// for that very task, says that it is still this node's and held, and the runtime, asked
// afterwards for that very container, says that there is none. Run is one loop in its
// caller's goroutine.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/client"
	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/loop"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// heldStatuses are those in which a task has a container on its node. An asleep task's is
// missed when it is woken.
var heldStatuses = []protocol.TaskStatus{protocol.StatusRunning, protocol.StatusStopping, protocol.StatusSleeping, protocol.StatusWaking}

// Plane is the part of the control plane's client reconciliation uses.
type Plane interface {
	Tasks(ctx context.Context, limit int, statuses ...protocol.TaskStatus) ([]protocol.Task, error)
	Task(ctx context.Context, id string) (protocol.Task, error)
}

// Executor is what reconciliation hands its findings to.
type Executor interface {
	Owns(taskID string) bool
	Adopt(c runtime.Container) error
	AdoptResults() error
	Resume(task protocol.Task) (bool, error)
	Lost(task protocol.Task) error
	Retry()
	AllowClaims()
	Forget(ctx context.Context) error
}

// sweeper is a runtime that keeps things of its own beside its containers, which a crash
// can leave behind. Sweep touches no container without these labels.
type sweeper interface {
	Sweep(ctx context.Context, labels map[string]string) error
}

// Options make a Reconciler.
type Options struct {
	NodeID   string
	Plane    Plane
	Runtime  func() (runtime.Runtime, error) // one that answers now
	Executor Executor
	Period   time.Duration
	// Ready delays the first round until the runtime has been looked at.
	Ready <-chan struct{}
	Log   *zap.Logger
}

// Reconciler compares the node with the control plane.
type Reconciler struct {
	opts Options
	kick loop.Kicker
}

// New makes a reconciler.
func New(opts Options) *Reconciler { return &Reconciler{opts: opts, kick: loop.NewKicker()} }

// Kick starts a round at once: the runtime or the control plane is back.
func (r *Reconciler) Kick() { r.kick.Kick() }

// Run reconciles until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-r.opts.Ready:
	}
	loop.Loop{
		Period: func() time.Duration { return r.opts.Period },
		Do:     r.round, Pause: client.Pause, Kick: r.kick, Prompt: true,
	}.Run(ctx)
}

func (r *Reconciler) round(ctx context.Context) error {
	r.opts.Executor.Retry() // which may need no runtime
	rt, err := r.opts.Runtime()
	if err != nil {
		return err // reported by whoever watches the runtime
	}
	if err := r.adopt(ctx, rt); err != nil {
		r.opts.Log.Warn("could not adopt this node's containers; nothing is claimed before that", zap.Error(err))
		return err
	}
	// Before anything is claimed: what a crash left may be running on a card that nobody holds.
	if s, ok := rt.(sweeper); ok {
		if err := s.Sweep(ctx, taskcontainer.OwnLabels(r.opts.NodeID)); err != nil {
			r.opts.Log.Warn("what a crash left in the container runtime could not all be removed", zap.Error(err))
		}
	}
	r.opts.Executor.AllowClaims()
	if err := errors.Join(r.missing(ctx, rt), r.opts.Executor.Forget(ctx)); err != nil {
		if !errors.Is(err, client.ErrUnauthorized) { // that one is logged by the client
			r.opts.Log.Warn("could not compare this node's containers with the control plane", zap.Error(err))
		}
		return err
	}
	return nil
}

// adopt gives every container of this node, and every result whose container is gone, an
// owner. A container that is not quite ours is left alone and reported.
func (r *Reconciler) adopt(ctx context.Context, rt runtime.Runtime) error {
	containers, err := rt.List(ctx, taskcontainer.OwnLabels(r.opts.NodeID))
	if err != nil {
		return fmt.Errorf("list this node's containers: %w", err)
	}
	for _, c := range containers {
		if r.opts.Executor.Owns(c.Labels[taskcontainer.LabelTaskID]) {
			continue
		}
		if err := r.opts.Executor.Adopt(c); err != nil {
			r.opts.Log.Error("container left alone", logging.ContainerID(c.ID), zap.Error(err))
		}
	}
	return r.opts.Executor.AdoptResults()
}

// missing finds the tasks that the control plane has here and that have no owner.
func (r *Reconciler) missing(ctx context.Context, rt runtime.Runtime) error {
	tasks, err := r.opts.Plane.Tasks(ctx, protocol.MaxListLimit, heldStatuses...)
	if err != nil {
		return err
	}
	var errs []error // of one task, and no reason to forget the others
	for _, task := range tasks {
		if !r.opts.Executor.Owns(task.ID) {
			errs = append(errs, r.missed(ctx, rt, task.ID))
		}
	}
	return errors.Join(errs...)
}

// missed decides about one task, asking for it and for its container again: since the
// lists were made it may have ended, moved, or been given an owner.
func (r *Reconciler) missed(ctx context.Context, rt runtime.Runtime, id string) error {
	task, err := r.opts.Plane.Task(ctx, id)
	if errors.Is(err, client.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if task.NodeID != r.opts.NodeID || !slices.Contains(heldStatuses, task.Status) {
		return nil
	}
	c, err := rt.Inspect(ctx, taskcontainer.Name(id))
	switch {
	case err == nil && c.Labels[taskcontainer.LabelNodeID] != r.opts.NodeID:
		r.opts.Log.Error("container left alone: it is not this node's, and has the name of a task that the control plane has here",
			logging.TaskID(id), logging.ContainerID(c.ID))
		return nil
	case err == nil, !errors.Is(err, runtime.ErrNotFound):
		return err // it is there after all: the next round adopts it
	}
	if r.opts.Executor.Owns(id) {
		return nil
	}
	if task.Status == protocol.StatusRunning {
		if resumed, err := r.opts.Executor.Resume(task); resumed || err != nil {
			return err
		}
	}
	r.opts.Log.Error("the control plane has a task here that has no container", logging.TaskID(id), logging.Generation(task.Generation), logging.Status(task.Status))
	return r.opts.Executor.Lost(task)
}
