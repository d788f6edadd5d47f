package agent

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	goruntime "runtime"

	"github.com/heteroflow/node-agent/agent/bootclock"
	"github.com/heteroflow/node-agent/agent/cards"
	"github.com/heteroflow/node-agent/agent/connector"
	"github.com/heteroflow/node-agent/agent/drain"
	"github.com/heteroflow/node-agent/agent/executor"
	"github.com/heteroflow/node-agent/agent/preflight"
	"github.com/heteroflow/node-agent/agent/process"
	"github.com/heteroflow/node-agent/agent/pull"
	"github.com/heteroflow/node-agent/agent/reconcile"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/agent/wake"
	"github.com/heteroflow/node-agent/gpu/nvidia"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd"
	"github.com/heteroflow/node-agent/runtime/docker"
)

// wireTasks makes everything between the control plane and the container runtime.
func (a *Agent) wireTasks() error {
	candidates, err := a.candidates()
	if err != nil {
		return err
	}
	fence, err := newFence(a.cfg)
	if err != nil {
		return err
	}
	a.cards = cards.New(cards.Options{
		Inventory: a.gpus, Period: a.cfg.GPU.InventoryPeriod, Log: a.log,
		MPS:       nvidia.MPS{Run: a.machine.Runner, Root: a.cfg.GPU.HostRoot},
		Generator: cards.NewGenerator(a.machine, a.cfg.GPU),
	})
	a.connector = connector.New(connector.Options{
		Candidates: candidates, Labels: taskcontainer.OwnLabels(a.who.NodeID),
		Period: a.cfg.Heartbeat.Period, Log: a.log,
		OnReturn: func() { a.reconcile.Kick(); a.heart.Kick() },
	})
	a.waker = wake.New(wake.Options{Plane: a.client, RetryPeriod: a.cfg.Tasks.PollPeriod, Poll: a.poll, Log: a.log})
	puller := pull.New(pull.Config{
		Attempts: a.cfg.Pull.Attempts, Timeout: a.cfg.Pull.Timeout, InactivityTimeout: a.cfg.Pull.InactivityTimeout,
		Room: a.imageRoom, UnpackFactor: a.cfg.Pull.UnpackFactor,
		TrustNodeCache: a.cfg.Pull.TrustNodeCache,
	}, a.log)
	a.drain = drain.New(a.journal, a.log, func() { a.executor.PollTasks() })
	if a.executor, err = executor.New(executor.Options{
		NodeID: a.who.NodeID, Plane: a.client, Journal: a.journal, Puller: puller, Devices: a.cards, Free: a.free,
		Processes: process.Table{Root: "/proc"}, BootClock: bootclock.Now, Log: a.log,
		Runtime: a.connector.Runtime, RuntimeUsable: a.runtimeUsable, Drained: a.drain.On,
		Builder: taskcontainer.Builder{
			Fence:       fence,
			RuntimeRoot: func() string { return a.connector.Status().Info.RootDir },
			LogLimits:   runtime.LogLimits{MaxBytes: a.cfg.Tasks.ContainerLogSize, MaxFiles: a.cfg.Tasks.ContainerLogs},
		},
		Workers: workers(a.cfg.Tasks.Workers), MinAge: a.cfg.Tasks.MinContainerAge, LogTail: a.cfg.Tasks.LogTailBytes,
		Poll: executor.PollPolicy{Period: a.cfg.Tasks.PollPeriod, Relaxed: a.cfg.Tasks.WakePollPeriod, Relax: a.waker.Working},
		Report: executor.ReportPolicy{
			Attempts: a.cfg.Report.Attempts, InitialBackoff: a.cfg.Report.InitialBackoff,
			MaxBackoff: a.cfg.Report.MaxBackoff, Budget: a.cfg.Report.Budget,
		},
	}); err != nil {
		return err
	}
	a.reconcile = reconcile.New(reconcile.Options{
		NodeID: a.who.NodeID, Plane: a.client, Executor: a.executor, Period: a.cfg.Tasks.ReconcilePeriod,
		Runtime: a.connector.Usable, Ready: a.connector.Ready(), Log: a.log,
	})
	return nil
}

// free is what is free where a directory of the host is.
func (a *Agent) free(ctx context.Context, dir string) (preflight.Space, bool) {
	return a.host.Free(ctx, filepath.Join("/", a.cfg.GPU.HostRoot, dir))
}

// imageRoom is what is free where the runtime keeps images.
func (a *Agent) imageRoom(ctx context.Context) (dir string, free preflight.Space, known bool) {
	dir = a.connector.Status().Info.ImageDir
	if dir == "" {
		return "", preflight.Space{}, false
	}
	free, known = a.free(ctx, dir)
	return dir, free, known
}

// candidates are the runtimes the configuration allows, the preferred one first.
func (a *Agent) candidates() ([]runtime.Runtime, error) {
	var all []runtime.Runtime
	if a.cfg.Runtime.Name != string(runtime.Docker) {
		rt, err := a.containerd()
		if err != nil {
			return nil, fmt.Errorf("runtime.containerd: %w", err)
		}
		all = append(all, rt)
	}
	if a.cfg.Runtime.Name != string(runtime.Containerd) {
		rt, err := docker.New(docker.Options{Host: a.cfg.Runtime.DockerHost, Log: a.log})
		if err != nil {
			return nil, fmt.Errorf("runtime.docker_host: %w", err)
		}
		all = append(all, rt)
	}
	return all, nil
}

func (a *Agent) containerd() (runtime.Runtime, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find the agent's own binary, which writes the tasks' logs: %w", err)
	}
	c := a.cfg.Runtime.Containerd
	subnet, err := netip.ParsePrefix(c.Subnet)
	if err != nil {
		return nil, fmt.Errorf("subnet: %w", err)
	}
	return containerd.New(containerd.Options{
		Address: c.Address, Namespace: c.Namespace, Snapshotter: c.Snapshotter, OCIRuntime: c.OCIRuntime, HostsDir: c.HostsDir,
		StateDir: filepath.Join(a.cfg.StateDir, "containerd"), RunDir: c.RunDir, LogBinary: self,
		Bridge: c.Bridge, Subnet: subnet, CDIDirs: cards.SpecDirs(a.cfg.GPU), Log: a.log,
	})
}

// The bounds of the number of tasks that run at once where the operator sets none.
const (
	minWorkers = 2
	maxWorkers = 16
)

func workers(configured int) int {
	if configured > 0 {
		return configured
	}
	return min(max(goruntime.NumCPU(), minWorkers), maxWorkers)
}
