package containerd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/crashpoint"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd/registry"
)

// A lease keeps what a pull has fetched from containerd's garbage collector. It expires by
// itself where a crash leaves it.
const (
	labelLease = "io.heteroflow.lease" // leasePull
	labelImage = "io.heteroflow.lease-image"

	leasePull = "pull"

	// keepFetched is how long the layers of a pull that failed stay for the next attempt.
	keepFetched = 6 * time.Hour
)

// unpackBeat is how often a pull says that it goes on while the daemon unpacks layers,
// which moves no bytes and takes minutes for large ones.
const unpackBeat = 5 * time.Second

// Pull fetches and unpacks an image. The layers that an earlier attempt has fetched are
// not fetched again. Besides when bytes have moved, Progress is called every few seconds
// while the daemon unpacks.
func (r *Runtime) Pull(ctx context.Context, req runtime.PullRequest) (runtime.Image, error) {
	named, err := runtime.ParseReference(req.Ref)
	if err != nil {
		return runtime.Image{}, err
	}
	what := "pull image " + named.String()
	call := r.in(ctx)
	lease, err := r.client.LeasesService().Create(call,
		leases.WithID("heteroflow-pull-"+randomID()), leases.WithExpiration(keepFetched),
		leases.WithLabels(map[string]string{labelLease: leasePull, labelImage: named.String()}))
	if err != nil {
		return runtime.Image{}, translate(ctx, what, err)
	}
	crashpoint.Reach("containerd: pull leased")
	r.pulling.Store(lease.ID, nil)
	defer r.pulling.Delete(lease.ID)
	session := registry.NewSession(call, r.options.HostsDir, named, req.Auth, req.Progress)
	defer session.Close()
	var published atomic.Bool
	stop := beat(session.Progress)
	_, err = r.client.Pull(leases.WithLease(call, lease.ID), named.String(),
		client.WithResolver(session.Resolver()),
		client.WithPullUnpack,
		client.WithPullSnapshotter(r.options.Snapshotter),
		client.WithImageHandlerWrapper(r.admission(req.Admit, &published)),
	)
	stop()
	if refused, ok := errors.AsType[*refusedError](err); ok && ctx.Err() == nil {
		return runtime.Image{}, fmt.Errorf("%s: %w", what, errors.Join(refused.err, r.client.LeasesService().Delete(call, lease)))
	}
	if err != nil {
		r.releaseEmpty(ctx, lease)
		return runtime.Image{}, translate(ctx, what, pullError(err, published.Load()))
	}
	crashpoint.Reach("containerd: image unpacked")
	session.Progress.Repeat()
	img, err := r.describe(call, named)
	r.pulling.Delete(lease.ID)
	if err := errors.Join(err, r.releaseFetched(call, named.String())); err != nil {
		return runtime.Image{}, translate(ctx, what, err)
	}
	return img, nil
}

// releaseEmpty removes the lease of a pull that failed, unless it keeps something for the
// next attempt: finished layers, or parts of one. A lease that cannot be looked into stays
// until it expires.
func (r *Runtime) releaseEmpty(ctx context.Context, lease leases.Lease) {
	call, cancel := r.detached(ctx)
	defer cancel()
	kept, err := r.client.LeasesService().ListResources(call, lease)
	if err != nil || len(kept) > 0 {
		return
	}
	if err := r.client.LeasesService().Delete(call, lease); err != nil && !errdefs.IsNotFound(err) {
		r.options.Log.Debug("lease of a failed pull not removed; it expires", zap.String("lease", lease.ID), zap.Error(err))
	}
}

// releaseFetched removes the leases that keep an image's layers for a next attempt, now
// that the image keeps them: this one's, and those of attempts that failed or died.
func (r *Runtime) releaseFetched(ctx context.Context, ref string) error {
	kept, err := r.client.LeasesService().List(ctx, "labels."+quote(labelLease)+"=="+leasePull)
	if err != nil {
		return err
	}
	for _, l := range kept {
		if _, atWork := r.pulling.Load(l.ID); atWork || l.Labels[labelImage] != ref {
			continue
		}
		if err := r.client.LeasesService().Delete(ctx, l); err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// CanPull asks the registry for the image's manifest or index, as the first step of a pull
// does: it, or a mirror that the hosts directory names for it.
func (r *Runtime) CanPull(ctx context.Context, ref string, auth *runtime.RegistryAuth) error {
	named, err := runtime.ParseReference(ref)
	if err != nil {
		return err
	}
	call := r.in(ctx)
	session := registry.NewSession(call, r.options.HostsDir, named, auth, nil)
	defer session.Close()
	_, _, err = session.Resolver().Resolve(call, named.String())
	return translate(ctx, "ask the registry for image "+named.String(), err)
}

// pullError tells three errors from those that are what they say: content that is not what its
// digest says, which only a registry can be the cause of; layers that the daemon cannot unpack,
// of which it says nothing in particular; and a part of a published image that is not found. The
// registry may lack it, or somebody have pruned it here; another try tells.
func pullError(err error, published bool) error {
	switch own := native(err); {
	case errdefs.IsFailedPrecondition(own), published && errdefs.IsUnknown(own) && !isNoSpace(own):
		return fmt.Errorf("%w: %w", runtime.ErrRegistryUnavailable, err)
	case published && errdefs.IsNotFound(own) && !strings.Contains(own.Error(), notForUs):
		return fmt.Errorf("%w: the image is there, and a part of it is not found, there or on this node: %s", runtime.ErrRegistryUnavailable, own.Error())
	}
	return err
}

// notForUs is what containerd's client says of an image for other kinds of machines alone.
const notForUs = "no match for platform"

// beat repeats the progress while nothing is asked of the registry, until stopped.
func beat(p *registry.Progress) (stop func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(unpackBeat)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				if p.Idle() {
					p.Repeat()
				}
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-stopped }
}
