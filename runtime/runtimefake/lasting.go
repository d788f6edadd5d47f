package runtimefake

import (
	"context"
	"fmt"
	"time"

	"github.com/heteroflow/node-agent/runtime"
)

// The calls that last.

// Wait blocks until the container has stopped.
func (r *Runtime) Wait(ctx context.Context, id string) (runtime.Exit, error) {
	var cut, ended, gone <-chan struct{}
	var c *container
	err := r.on(ctx, OpWait, id, func(found *container) error {
		c, cut, ended, gone = found, r.d.cut, found.ended, found.gone
		if ended == nil {
			return fmt.Errorf("wait: %w: the container never ran", runtime.ErrConflict)
		}
		return nil
	})
	if err != nil {
		return runtime.Exit{}, err
	}
	select {
	case <-ctx.Done():
		return runtime.Exit{}, ctx.Err()
	case <-r.severed:
		return runtime.Exit{}, errSevered
	case <-cut:
		return runtime.Exit{}, fmt.Errorf("wait: %w: EOF", runtime.ErrUnavailable)
	case <-gone:
		return runtime.Exit{}, fmt.Errorf("wait: %w: the container was removed", runtime.ErrNotFound)
	case <-ended:
	}
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if c.exit == nil { // it runs again already
		return runtime.Exit{}, fmt.Errorf("wait: %w: that run is over", runtime.ErrConflict)
	}
	return *c.exit, nil
}

// Stop ends the container's program: SIGTERM, and SIGKILL after grace.
func (r *Runtime) Stop(ctx context.Context, id string, grace time.Duration) error {
	var ended <-chan struct{}
	var program Program
	err := r.on(ctx, OpStop, id, func(c *container) error {
		ended, program = c.ended, c.program
		if grace > 0 && !program.IgnoresTerm && !program.Unkillable {
			c.end(r.d.exitOf(128+15, false))
		}
		if !c.running {
			ended = nil
		}
		return nil
	})
	if err != nil || ended == nil {
		return err
	}
	if err := r.pause(ctx, grace, ended); err != nil {
		return err
	}
	if program.Unkillable {
		if err := r.pause(ctx, runtime.StopMargin, ended); err != nil {
			return err
		}
		return fmt.Errorf("stop: %w: its process does not die", runtime.ErrStopTimeout)
	}
	r.d.mu.Lock()
	defer r.d.mu.Unlock()
	if c := r.d.find(id); c != nil {
		c.end(r.d.exitOf(128+9, false))
	}
	return nil
}

// Published is an image in a registry.
type Published struct {
	Program Program
	Takes   time.Duration // to pull
	Err     error         // why it cannot be pulled
	Wants   string        // the password without which it is denied; empty: none
	Fetch   runtime.Fetch // what is missing of it
}

// Publish puts an image into the registries the daemon can reach.
func (d *Daemon) Publish(ref string, image Published) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.registry[normal(ref)] = image
}

// AddImage makes an image local.
func (d *Daemon) AddImage(ref string, program Program) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.local[normal(ref)] = program
}

// Image looks for a local image.
func (r *Runtime) Image(ctx context.Context, ref string) (found runtime.Image, err error) {
	if _, err := runtime.ParseReference(ref); err != nil {
		return found, err
	}
	err = r.call(ctx, OpImage, func() error {
		if _, ok := r.d.local[normal(ref)]; !ok {
			return fmt.Errorf("image: %w: %s", runtime.ErrNotFound, ref)
		}
		found = imageOf(ref)
		return nil
	})
	return found, err
}

// Images lists the local images.
func (r *Runtime) Images(ctx context.Context) (found []runtime.Image, err error) {
	err = r.call(ctx, OpImage, func() error {
		for ref := range r.d.local {
			found = append(found, imageOf(ref))
		}
		return nil
	})
	return found, err
}

func imageOf(ref string) runtime.Image {
	return runtime.Image{ID: fmt.Sprintf("sha256:%x", normal(ref)), Refs: []string{normal(ref)}, SizeBytes: 1 << 20}
}

// Pull fetches a published image, moving a byte a second.
func (r *Runtime) Pull(ctx context.Context, req runtime.PullRequest) (runtime.Image, error) {
	var image Published
	var cut <-chan struct{}
	err := r.call(ctx, OpPull, func() error {
		r.d.pulls[normal(req.Ref)]++
		image, cut = r.d.registry[normal(req.Ref)], r.d.cut
		return r.d.letIn(req.Ref, req.Auth)
	})
	if err == nil && req.Admit != nil {
		err = req.Admit(image.Fetch)
	}
	if err != nil {
		return runtime.Image{}, err
	}
	for done := time.Duration(0); done < image.Takes; done += time.Second {
		if err := r.pause(ctx, time.Second, cut); err != nil {
			return runtime.Image{}, err
		}
		if isClosed(cut) {
			return runtime.Image{}, fmt.Errorf("pull: %w: EOF", runtime.ErrUnavailable)
		}
		if req.Progress != nil {
			req.Progress(runtime.PullProgress{BytesDone: int64(done / time.Second), BytesTotal: int64(image.Takes / time.Second)})
		}
	}
	r.d.AddImage(req.Ref, image.Program)
	return imageOf(req.Ref), nil
}

// CanPull asks the registry about a published image.
func (r *Runtime) CanPull(ctx context.Context, ref string, auth *runtime.RegistryAuth) error {
	return r.call(ctx, OpCanPull, func() error { return r.d.letIn(ref, auth) })
}

// letIn is what the registry answers to who asks for an image.
func (d *Daemon) letIn(ref string, auth *runtime.RegistryAuth) error {
	published, ok := d.registry[normal(ref)]
	switch {
	case !ok:
		return fmt.Errorf("registry: %w: no such image: %s", runtime.ErrNotFound, ref)
	case published.Wants != "" && (auth == nil || auth.Password != published.Wants):
		return fmt.Errorf("registry: %w: %s", runtime.ErrUnauthorized, ref)
	default:
		return published.Err
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
