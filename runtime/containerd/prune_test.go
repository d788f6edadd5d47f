package containerd_test

import (
	"errors"
	"testing"

	"github.com/containerd/containerd/v2/core/leases"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/image"
	"github.com/heteroflow/node-agent/test/registry"
)

// A prune that deletes the lease of a pull has the daemon forget what the pull has fetched.
// That is no word of the registry's, which has the image: the pull can be tried again.
func TestAPullWhoseLeaseIsDeletedIsNotNotFound(t *testing.T) {
	f := setUp(t, flavours()[0])
	reg, err := registry.Start(registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reg.Close() }()
	img, err := image.Build(t.Context(), image.Options{Fillers: []image.Filler{{Bytes: 1 << 20, Seed: 77}}})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := reg.Push(img, "pruned:v1")
	if err != nil {
		t.Fatal(err)
	}
	service := f.client(t).LeasesService()
	_, err = f.Pull(t.Context(), runtime.PullRequest{Ref: ref, Admit: func(runtime.Fetch) error { // the manifest has been fetched
		held, err := service.List(t.Context())
		if err != nil || len(held) != 1 {
			t.Errorf("leases %v, %v, want the pull's", held, err)
			return err
		}
		return service.Delete(t.Context(), held[0], leases.SynchronousDelete)
	}})
	if !errors.Is(err, runtime.ErrRegistryUnavailable) || errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("the pull that was pruned: %v", err)
	}
	if _, err := f.Pull(t.Context(), runtime.PullRequest{Ref: ref}); err != nil {
		t.Errorf("the next: %v", err)
	}
}
