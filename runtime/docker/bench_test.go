package docker_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/docker"
	"github.com/heteroflow/node-agent/test/daemon"
)

// BenchmarkCycle is a container's whole life, from create to remove, on the host's
// network: through this package, and through bare calls of moby's client with the same
// effect and no second look.
func BenchmarkCycle(b *testing.B) {
	host := daemon.RequireDocker(b)
	r := connect(b, docker.Options{Host: host})
	ref := pullWorkload(b, r, host)
	prefix := "bench-" + strings.ToLower(rand.Text()[:8])
	labels := map[string]string{"io.heteroflow.benchmark": prefix}
	b.Cleanup(func() {
		ctx := context.WithoutCancel(b.Context())
		left, err := r.List(ctx, labels)
		for _, c := range left {
			err = errors.Join(err, r.Remove(ctx, c.ID))
		}
		if err != nil {
			b.Error(err)
		}
	})
	b.Run("runtime", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			cycle(b, r, fmt.Sprintf("%s-%d", prefix, n), ref, labels)
		}
	})
	api := bareClient(b, host)
	b.Run("moby", func(b *testing.B) {
		for n := 0; b.Loop(); n++ {
			bareCycle(b, api, fmt.Sprintf("%s-bare-%d", prefix, n), ref, labels)
		}
	})
}

func cycle(b *testing.B, r *docker.Runtime, name, ref string, labels map[string]string) {
	ctx := b.Context()
	c, err := r.Create(ctx, runtime.Spec{
		Name:    name,
		Image:   ref,
		Labels:  labels,
		Args:    []string{"exit", "0"},
		Network: runtime.Network{Mode: runtime.NetworkHost},
		IPC:     runtime.IPCPrivate,
		Logs:    runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 1},
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := r.Start(ctx, c.ID); err != nil {
		b.Fatal(err)
	}
	if exit, err := r.Wait(ctx, c.ID); err != nil || exit.Code == nil || *exit.Code != 0 {
		b.Fatal(exit, err)
	}
	if err := r.Remove(ctx, c.ID); err != nil {
		b.Fatal(err)
	}
}

func bareCycle(b *testing.B, api *client.Client, name, ref string, labels map[string]string) {
	ctx := b.Context()
	c, err := api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name:   name,
		Config: &container.Config{Image: ref, Cmd: []string{"exit", "0"}, Labels: labels},
		HostConfig: &container.HostConfig{
			NetworkMode: "host",
			IpcMode:     container.IPCModePrivate,
			LogConfig:   container.LogConfig{Type: "local"},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := api.ContainerStart(ctx, c.ID, client.ContainerStartOptions{}); err != nil {
		b.Fatal(err)
	}
	waiting := api.ContainerWait(ctx, c.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-waiting.Result:
	case err := <-waiting.Error:
		b.Fatal(err)
	}
	if _, err := api.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
		b.Fatal(err)
	}
}
