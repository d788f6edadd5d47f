package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/executor"
	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/agent/pathfence"
	"github.com/heteroflow/node-agent/agent/pull"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/docker"
	"github.com/heteroflow/node-agent/test/daemon"
)

// BenchmarkClaimToStarted measures what the agent adds between a claim that was won and
// a started container, against the bare Engine API's create and start of an equal
// container. Both take turns in one run, so that the machine's other load hits both; the
// metrics are medians.
func BenchmarkClaimToStarted(b *testing.B) {
	host := daemon.RequireDocker(b)
	shared.Prepare(b)
	rt, err := docker.New(docker.Options{Host: host})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = rt.Close() }()
	image := shared.Images().Workload
	auth := &runtime.RegistryAuth{Username: shared.Images().Auth().Username, Password: shared.Images().Auth().Password.Reveal()}
	if _, err := rt.Pull(b.Context(), runtime.PullRequest{Ref: image, Auth: auth}); err != nil {
		b.Fatal(err)
	}
	bare, err := client.New(client.WithHost(host))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = bare.Close() }()
	node := startNode(b, rt)

	var agent, engine []time.Duration
	for i := 0; b.Loop(); i++ {
		agent = append(agent, node.launch(b, fmt.Sprintf("bench-%d-%d", time.Now().UnixNano(), i), image))
		engine = append(engine, launchBare(b, bare, image))
	}
	a, e := median(agent), median(engine)
	b.ReportMetric(float64(a.Microseconds())/1000, "agent-ms")
	b.ReportMetric(float64(e.Microseconds())/1000, "engine-ms")
	b.ReportMetric(float64(a)/float64(e), "ratio")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// launchBare is the least a client must do, with the settings the agent's containers have.
func launchBare(b *testing.B, c *client.Client, image string) time.Duration {
	b.Helper()
	ctx := b.Context()
	begun := time.Now()
	made, err := c.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config: &container.Config{Image: image, Cmd: []string{"exit", "0"}},
		HostConfig: &container.HostConfig{
			NetworkMode: "host", IpcMode: "private", SecurityOpt: []string{"no-new-privileges"},
			LogConfig: container.LogConfig{Type: "local", Config: map[string]string{"max-size": "1048576", "max-file": "2"}},
		},
	})
	if err == nil {
		_, err = c.ContainerStart(ctx, made.ID, client.ContainerStartOptions{})
	}
	took := time.Since(begun)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := c.ContainerRemove(ctx, made.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
		b.Fatal(err)
	}
	return took
}

// benchNode is a real executor on a real runtime; its control plane is in memory and its
// clock runs from the claim to the runtime's answer to start.
type benchNode struct {
	runtime.Runtime
	executor *executor.Executor

	mu      sync.Mutex
	task    *protocol.Task
	claimed time.Time
	started chan time.Duration
	ended   chan struct{}
}

func startNode(b *testing.B, rt runtime.Runtime) *benchNode {
	b.Helper()
	j, err := journal.Open(filepath.Join(b.TempDir(), "state"), journal.Options{})
	if err != nil {
		b.Fatal(err)
	}
	fence, err := pathfence.New(pathfence.Config{Allow: pathfence.DefaultAllow()})
	if err != nil {
		b.Fatal(err)
	}
	log := zap.NewNop()
	n := &benchNode{Runtime: rt, started: make(chan time.Duration, 1), ended: make(chan struct{}, 1)}
	n.executor, err = executor.New(executor.Options{
		NodeID: "bench", Plane: n, Journal: j, Log: log, Workers: 1,
		Runtime: func() (runtime.Runtime, error) { return n, nil }, RuntimeUsable: func() bool { return true }, Drained: func() bool { return false },
		Puller:  pull.New(pull.Config{Attempts: 1, Timeout: time.Minute, InactivityTimeout: time.Minute, TrustNodeCache: true}, log),
		Builder: taskcontainer.Builder{Fence: fence, LogLimits: runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 2}},
		Poll:    executor.PollPolicy{Period: time.Hour, Relax: func() bool { return false }},
		Report:  executor.ReportPolicy{Attempts: 1, Budget: time.Second},
	})
	if err != nil {
		b.Fatal(err)
	}
	n.executor.AllowClaims()
	ctx, stop := context.WithCancel(b.Context())
	var running sync.WaitGroup
	running.Go(func() { n.executor.Run(ctx) })
	b.Cleanup(func() { stop(); running.Wait(); _ = j.Close() })
	return n
}

func (n *benchNode) launch(b *testing.B, id, image string) time.Duration {
	b.Helper()
	n.mu.Lock()
	n.task = &protocol.Task{
		ID: id, NodeID: "bench", Status: protocol.StatusScheduled, Generation: 1,
		Image: image, Args: []string{"exit", "0"}, Network: protocol.NetworkHost,
	}
	n.mu.Unlock()
	n.executor.PollTasks()
	took := <-n.started
	<-n.ended
	for n.executor.Owns(id) {
		n.executor.Retry()
		select {
		case <-b.Context().Done():
			b.Fatal(b.Context().Err())
		case <-time.After(time.Millisecond):
		}
	}
	return took
}

// Start measures. The container of a failed start would hang the benchmark: fail instead.
func (n *benchNode) Start(ctx context.Context, id string) error {
	err := n.Runtime.Start(ctx, id)
	n.started <- time.Since(n.claimed)
	return err
}

func (n *benchNode) Tasks(context.Context, int, ...protocol.TaskStatus) ([]protocol.Task, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.task == nil || n.task.Status != protocol.StatusScheduled {
		return nil, nil
	}
	return []protocol.Task{*n.task}, nil
}

func (n *benchNode) Task(context.Context, string) (protocol.Task, error) {
	return protocol.Task{}, errors.New("nobody asks for a single task in this benchmark")
}

func (n *benchNode) UpdateTask(_ context.Context, _ string, u protocol.TaskUpdate) (protocol.Task, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.task.Status = u.Status
	if u.Status.Terminal() {
		n.ended <- struct{}{}
	} else {
		n.claimed = time.Now()
	}
	return *n.task, nil
}
