package containerd_test

import (
	"context"
	"testing"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd"
	"github.com/heteroflow/node-agent/runtime/runtimetest"
)

func TestContainerdConforms(t *testing.T) {
	eachFlavour(t, func(t *testing.T, f flavour) {
		d := startDaemon(t, f)
		store := d.client(t).ImageService()
		runtimetest.Run(t, runtimetest.Harness{
			New: func(t *testing.T) runtime.Runtime {
				r, err := containerd.New(d.options(t))
				if err != nil {
					t.Fatal(err)
				}
				return r
			},
			RemoveImage: func(ctx context.Context, ref string) error {
				err := store.Delete(ctx, ref, images.SynchronousDelete())
				if errdefs.IsNotFound(err) {
					return nil
				}
				return err
			},
		})
	})
}
