package containerd_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/leases"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/image"
	"github.com/heteroflow/node-agent/test/registry"
)

// GC runs each time a lease is deleted synchronously.
func TestGarbageCollectionInALoopBreaksNoPullAndNoCreate(t *testing.T) {
	eachFlavour(t, func(t *testing.T, fl flavour) {
		f := setUp(t, fl)
		reg, err := registry.Start(registry.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = reg.Close() }()
		reg.Slow(registry.Blobs, 4<<20)
		c := f.client(t)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		defer wg.Wait()
		defer close(stop)
		wg.Go(func() {
			for {
				lease, err := c.LeasesService().Create(t.Context(), leases.WithRandomID())
				if err == nil {
					err = c.LeasesService().Delete(t.Context(), lease, leases.SynchronousDelete)
				}
				if err != nil {
					t.Error(err)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		for i := range 4 {
			img, err := image.Build(t.Context(), image.Options{Fillers: []image.Filler{{Bytes: 1 << 20, Seed: uint64(2 * i)}, {Bytes: 1 << 20, Seed: uint64(2*i + 1)}}})
			if err != nil {
				t.Fatal(err)
			}
			ref, err := reg.Push(img, "app:"+string(rune('a'+i)))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Pull(t.Context(), runtime.PullRequest{Ref: ref}); err != nil {
				t.Fatal(err)
			}
			spec := f.spec("exit", "0")
			spec.Image = ref
			if err := f.Remove(t.Context(), f.run(t, spec)); err != nil {
				t.Fatal(err)
			}
		}
	}, "system-runc", "2.4-runc")
}

func TestAPullThatFailedGoesOnWhereItStopped(t *testing.T) {
	f := setUp(t, flavours()[0])
	reg, err := registry.Start(registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reg.Close() }()
	const size = 8 << 20
	img, err := image.Build(t.Context(), image.Options{Fillers: []image.Filler{{Bytes: size, Seed: 99}}})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := reg.Push(img, "app:v1")
	if err != nil {
		t.Fatal(err)
	}
	stall := reg.Stall(registry.Blobs, size/2)
	ctx, cancel := context.WithCancel(t.Context())
	pulled := make(chan error, 1)
	go func() {
		_, err := f.Pull(ctx, runtime.PullRequest{Ref: ref})
		pulled <- err
	}()
	store := f.client(t).ContentStore()
	eventually(t, "the daemon has a part of the layer", func() bool {
		under, err := store.ListStatuses(t.Context())
		// The manifest and the configuration, which come first, are smaller.
		return err == nil && slices.ContainsFunc(under, func(s content.Status) bool { return s.Offset >= size/8 })
	})
	cancel()
	if err := <-pulled; !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	reg.Heal()
	stall.Release()
	var ranges []string
	reg.Slow(func(req *http.Request) bool {
		if from := req.Header.Get("Range"); registry.Blobs(req) && from != "" {
			ranges = append(ranges, from)
		}
		return false
	}, 1)
	if _, err := f.Pull(t.Context(), runtime.PullRequest{Ref: ref}); err != nil {
		t.Fatal(err)
	}
	if len(ranges) != 1 {
		t.Errorf("the second pull asked for ranges %q, want one of the layer that was half fetched", ranges)
	}
	if kept, err := f.client(t).LeasesService().List(t.Context()); err != nil || len(kept) != 0 {
		t.Errorf("leases %v, %v: the image keeps its layers now", kept, err)
	}
}

func TestAPullThatFetchedNothingLeavesNothing(t *testing.T) {
	f := setUp(t, flavours()[0])
	reg, err := registry.Start(registry.Options{Username: "user", Password: "right"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reg.Close() }()
	img, err := image.Build(t.Context(), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := reg.Push(img, "app:v1")
	if err != nil {
		t.Fatal(err)
	}
	auth := &runtime.RegistryAuth{Username: "user", Password: "wrong"}
	if _, err := f.Pull(t.Context(), runtime.PullRequest{Ref: ref, Auth: auth}); !errors.Is(err, runtime.ErrUnauthorized) {
		t.Fatalf("got %v", err)
	}
	if kept, err := f.client(t).LeasesService().List(t.Context()); err != nil || len(kept) != 0 {
		t.Errorf("leases %v, %v", kept, err)
	}
}
