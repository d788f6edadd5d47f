package containerd

import (
	"context"
	"sync/atomic"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/heteroflow/node-agent/runtime"
)

// refusedError is the caller's own no to a pull, on its way through containerd's client.
type refusedError struct{ err error }

func (e *refusedError) Error() string { return e.err.Error() }
func (e *refusedError) Unwrap() error { return e.err }

// admission asks the caller between the manifest and the first layer of a pull, and notes
// that the registry has the image. A layer that the daemon has packed is taken to be unpacked,
// too, and one that it has in another namespace alone to be missing.
func (r *Runtime) admission(admit func(runtime.Fetch) error, published *atomic.Bool) func(images.Handler) images.Handler {
	return func(next images.Handler) images.Handler {
		return images.HandlerFunc(func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
			children, err := next.Handle(ctx, desc)
			if err != nil || !images.IsManifestType(desc.MediaType) {
				return children, err
			}
			published.Store(true)
			if admit == nil {
				return children, nil
			}
			if err := admit(r.missing(ctx, children)); err != nil {
				return nil, &refusedError{err}
			}
			return children, nil
		})
	}
}

// missing is what of a manifest's children the daemon does not have.
func (r *Runtime) missing(ctx context.Context, children []ocispec.Descriptor) runtime.Fetch {
	var fetch runtime.Fetch
	store := r.client.ContentStore()
	for _, child := range children {
		if !images.IsLayerType(child.MediaType) {
			continue
		}
		switch _, err := store.Info(ctx, child.Digest); {
		case errdefs.IsNotFound(err):
			fetch.Add(child.MediaType, child.Size)
		case err != nil:
			return runtime.Fetch{Unknown: err}
		}
	}
	return fetch
}
