package docker_test

import (
	"context"
	"errors"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/docker"
	"github.com/heteroflow/node-agent/runtime/runtimetest"
	"github.com/heteroflow/node-agent/test/daemon"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bareClient is moby's own client, for what runtime.Runtime cannot do.
func bareClient(t testing.TB, host string) *client.Client {
	t.Helper()
	api, err := client.New(client.WithHost(host))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.Close(); err != nil {
			t.Error(err)
		}
	})
	return api
}

func connect(t testing.TB, o docker.Options) *docker.Runtime {
	t.Helper()
	r, err := docker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestDockerConforms(t *testing.T) {
	host := daemon.RequireDocker(t)
	api := bareClient(t, host)
	runtimetest.Run(t, runtimetest.Harness{
		New: func(t *testing.T) runtime.Runtime {
			r, err := docker.New(docker.Options{Host: host})
			if err != nil {
				t.Fatal(err)
			}
			return r
		},
		RemoveImage: func(ctx context.Context, ref string) error {
			_, err := api.ImageRemove(ctx, ref, client.ImageRemoveOptions{PruneChildren: true})
			if errors.Is(err, cerrdefs.ErrNotFound) {
				return nil
			}
			return err
		},
		HidesRetryAfter: true,
	})
}
