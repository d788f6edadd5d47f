package perf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/docker"
	"github.com/heteroflow/node-agent/test/stage"
)

const label = "io.heteroflow.perf"

func dockerPaths(b *testing.B, host, mark string, from *stage.Images) []path {
	b.Helper()
	rt, err := docker.New(docker.Options{Host: host})
	if err != nil {
		b.Fatal(err)
	}
	c, err := client.New(client.WithHost(host))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		err := clearDocker(context.WithoutCancel(b.Context()), c, mark, from.Workload)
		if err := errors.Join(err, rt.Close(), c.Close()); err != nil {
			b.Error(err)
		}
	})
	pull(b, rt, from)
	bare := bareDocker{c, from.Workload, mark}
	paths := []path{
		throughRuntime(agentDocker, rt, from.Workload, runtime.NetworkHost, map[string]string{label: mark}),
		{dockerAPI, bare.start},
	}
	program, err := exec.LookPath("docker")
	if err != nil {
		b.Logf("%s and %s are not measured: %v", dockerRun, dockerRunBridge, err)
		return paths
	}
	cli := commandLine{program, []string{"--host", host}}
	run := func(network string) func(context.Context, string) (func(context.Context) error, error) {
		return func(ctx context.Context, id string) (func(context.Context) error, error) {
			end := func(ctx context.Context) error {
				return errors.Join(cli.run(ctx, "wait", id), cli.run(ctx, "rm", id))
			}
			return end, cli.run(ctx, "run", "--detach", "--name", id, "--label", label+"="+mark, "--network", network,
				"--ipc", "private", "--security-opt", "no-new-privileges", "--log-driver", "local", from.Workload)
		}
	}
	return append(paths, path{dockerRun, run("host")}, path{dockerRunBridge, run("bridge")})
}

// bareDocker is the least a client of the Engine API must do for a container with the
// settings of the agent's.
type bareDocker struct {
	c     *client.Client
	image string
	mark  string
}

func (r bareDocker) start(ctx context.Context, id string) (func(context.Context) error, error) {
	made, err := r.c.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name:   id,
		Config: &container.Config{Image: r.image, Labels: map[string]string{label: r.mark}},
		HostConfig: &container.HostConfig{
			NetworkMode: "host", IpcMode: container.IPCModePrivate, SecurityOpt: []string{"no-new-privileges"},
			LogConfig: container.LogConfig{Type: "local", Config: map[string]string{"max-size": "1048576", "max-file": "2"}},
		},
	})
	if err != nil {
		return nil, err
	}
	end := func(ctx context.Context) error {
		waiting := r.c.ContainerWait(ctx, made.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
		select {
		case <-waiting.Result:
		case err := <-waiting.Error:
			return err
		}
		_, err := r.c.ContainerRemove(ctx, made.ID, client.ContainerRemoveOptions{})
		return err
	}
	_, err = r.c.ContainerStart(ctx, made.ID, client.ContainerStartOptions{})
	return end, err
}

func clearDocker(ctx context.Context, c *client.Client, mark, image string) error {
	filters := client.Filters{}
	filters.Add("label", label+"="+mark)
	left, err := c.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: filters})
	errs := []error{err}
	for _, container := range left.Items {
		_, err := c.ContainerRemove(ctx, container.ID, client.ContainerRemoveOptions{Force: true})
		errs = append(errs, err)
	}
	_, err = c.ImageRemove(ctx, image, client.ImageRemoveOptions{PruneChildren: true})
	return errors.Join(append(errs, err)...)
}

// commandLine is a tool with the flags every call of it needs.
type commandLine struct {
	program string
	flags   []string
}

func (c commandLine) run(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, c.program, append(slices.Clip(c.flags), args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", c.program, args[0], err, bytes.TrimSpace(out))
	}
	return nil
}
