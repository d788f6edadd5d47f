package perf

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd"
	"github.com/heteroflow/node-agent/test/stage"
)

// agentVariable is the absolute path of the agent to measure, with the log shim beside it;
// without it both are built.
const agentVariable = "HETEROFLOW_TEST_AGENT"

const snapshotter = "overlayfs"

// agentBinary is the agent whose log shims containerd's shims start.
func agentBinary(b *testing.B) string {
	b.Helper()
	binary := os.Getenv(agentVariable)
	if binary == "" {
		built, err := stage.BuildAgent(b.Context(), b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		return built
	}
	if _, err := os.Stat(logShim(binary)); err != nil {
		b.Fatalf("%s: %v: make build puts it there", agentVariable, err)
	}
	return binary
}

// logShim is the log shim beside an agent.
func logShim(agent string) string { return filepath.Join(filepath.Dir(agent), containerd.LogShim) }

// alone is the agent where no log shim lies beside it, so that it is its own.
func alone(b *testing.B, agent string) string {
	b.Helper()
	link := filepath.Join(b.TempDir(), filepath.Base(agent))
	if err := os.Symlink(agent, link); err != nil {
		b.Fatal(err)
	}
	return link
}

// The network of the containers that have one of their own.
const bridge, subnet = "heteroflow-pf0", "10.212.0.0/16"

func openContainerd(b *testing.B, socket, namespace, agent string) *containerd.Runtime {
	b.Helper()
	dir := b.TempDir()
	rt, err := containerd.New(containerd.Options{
		Address: socket, Namespace: namespace, Snapshotter: snapshotter, LogBinary: agent,
		StateDir: filepath.Join(dir, "state"), RunDir: filepath.Join(dir, "run"), Bridge: bridge, Subnet: netip.MustParsePrefix(subnet),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := rt.Close(); err != nil {
			b.Error(err)
		}
	})
	return rt
}

func containerdPaths(b *testing.B, socket, namespace string, from *stage.Images) []path {
	b.Helper()
	dir := b.TempDir()
	c, err := client.New(socket, client.WithDefaultNamespace(namespace))
	if err != nil {
		b.Fatal(err)
	}
	agent := agentBinary(b)
	rt, own := openContainerd(b, socket, namespace, agent), openContainerd(b, socket, namespace, alone(b, agent))
	b.Cleanup(func() {
		ctx := context.WithoutCancel(b.Context())
		err := clearNamespace(namespaces.WithNamespace(ctx, namespace), c, namespace, from.Workload)
		if err := errors.Join(err, c.Close()); err != nil {
			b.Error(err)
		}
		_ = exec.CommandContext(ctx, "ip", "link", "delete", bridge).Run() // there is one if a network could be made
	})
	pull(b, rt, from)
	bare := bareContainerd{c: c, image: from.Workload, logs: dir}
	paths := []path{
		throughRuntime(agentContainerd, rt, from.Workload, runtime.NetworkHost, nil),
		throughRuntime(agentAlone, own, from.Workload, runtime.NetworkHost, nil),
		throughRuntime(agentContainerdBridge, rt, from.Workload, runtime.NetworkBridge, nil),
		{containerdClient, bare.start},
	}
	program, err := exec.LookPath("ctr")
	if err != nil {
		b.Logf("%s is not measured: %v", ctrRun, err)
		return paths
	}
	cli := commandLine{program, []string{"--address", socket, "--namespace", namespace}}
	return append(paths, path{ctrRun, func(ctx context.Context, id string) (func(context.Context) error, error) {
		end := func(ctx context.Context) error {
			if err := bare.wait(ctx, id); err != nil { // ctr has no command for it
				return err
			}
			return errors.Join(cli.run(ctx, "tasks", "rm", id), cli.run(ctx, "containers", "rm", id))
		}
		return end, cli.run(ctx, "run", "--detach", "--net-host", "--seccomp", "--snapshotter", snapshotter,
			"--log-uri", "file://"+filepath.Join(dir, id+".log"), from.Workload, id)
	}})
}

// bareContainerd does with containerd's client what its documentation shows, with a spec
// as heavy as the agent's: the default seccomp profile, a log file, the host's network.
type bareContainerd struct {
	c     *client.Client
	image string
	logs  string
}

func (r bareContainerd) start(ctx context.Context, id string) (func(context.Context) error, error) {
	img, err := r.c.GetImage(ctx, r.image)
	if err != nil {
		return nil, err
	}
	container, err := r.c.NewContainer(ctx, id,
		client.WithSnapshotter(snapshotter), client.WithNewSnapshot(id, img),
		client.WithNewSpec(oci.WithImageConfig(img), oci.WithHostNamespace(specs.NetworkNamespace),
			oci.WithHostHostsFile, oci.WithHostResolvconf, seccomp.WithDefaultProfile()))
	if err != nil {
		return nil, err
	}
	task, err := container.NewTask(ctx, cio.LogFile(filepath.Join(r.logs, id+".log")))
	if err != nil {
		return nil, err
	}
	ended, err := task.Wait(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		status := <-ended
		if err := status.Error(); err != nil {
			return err
		}
		if _, err := task.Delete(ctx); err != nil {
			return err
		}
		return container.Delete(ctx, client.WithSnapshotCleanup)
	}, task.Start(ctx)
}

func (r bareContainerd) wait(ctx context.Context, id string) error {
	container, err := r.c.LoadContainer(ctx, id)
	if err != nil {
		return err
	}
	task, err := container.Task(ctx, nil)
	if err != nil {
		return err
	}
	ended, err := task.Wait(ctx)
	if err != nil {
		return err
	}
	status := <-ended
	return status.Error()
}

// clearNamespace removes the namespace with all that is in it.
func clearNamespace(ctx context.Context, c *client.Client, namespace, image string) error {
	left, err := c.Containers(ctx)
	errs := []error{err}
	for _, container := range left {
		task, err := container.Task(ctx, nil)
		if err == nil {
			_, err = task.Delete(ctx, client.WithProcessKill)
		}
		if !errdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
		errs = append(errs, container.Delete(ctx, client.WithSnapshotCleanup))
	}
	errs = append(errs,
		c.ImageService().Delete(ctx, image, images.SynchronousDelete()), // its content and snapshots go with it
		c.NamespaceService().Delete(ctx, namespace))
	return errors.Join(errs...)
}
