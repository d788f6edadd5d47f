// Package perf measures what a container's start and life cost on this machine along
// every path there is: the agent's two runtimes, the clients these are built on, and the
// command-line tools. The paths take turns in one run, so that whatever else the machine
// does falls on all of them alike; only their ratios mean anything elsewhere.
//
// docs/performance.md says how to run it and has its figures. Every run has a containerd
// namespace and a Docker label of its own and removes all that carries them.
package perf

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/daemon"
	"github.com/heteroflow/node-agent/test/image"
	"github.com/heteroflow/node-agent/test/stage"
)

// The paths. Those that do not say bridge put the container on the host's network.
const (
	agentContainerd       = "agent-containerd"
	agentContainerdBridge = "agent-containerd-bridge"
	agentAlone            = "agent-alone"
	containerdClient      = "containerd-client"
	ctrRun                = "ctr-run"
	agentDocker           = "agent-docker"
	dockerAPI             = "docker-api"
	dockerRun             = "docker-run"
	dockerRunBridge       = "docker-run-bridge"
)

// path is one way to have a container.
type path struct {
	name string
	// start creates a container that exits at once with 0, and starts it; it returns when
	// the daemon has said that it runs. end waits for its exit and removes it.
	start func(ctx context.Context, id string) (end func(context.Context) error, err error)
}

// names gives every container of this process a name of its own.
var names atomic.Int64

// run takes a container through its life and tells how long its start took, and all of it.
func (p path) run(ctx context.Context) (started, cycle time.Duration, err error) {
	id := fmt.Sprintf("perf-%d-%d", os.Getpid(), names.Add(1))
	began := time.Now()
	end, err := p.start(ctx, id)
	started = time.Since(began)
	if err == nil {
		err = end(ctx)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", p.name, err)
	}
	return started, time.Since(began), nil
}

// setUp returns the paths of both daemons, with the image in place, or skips the benchmark.
func setUp(b *testing.B) []path {
	b.Helper()
	host, socket := daemon.RequireDocker(b), daemon.RequireContainerd(b)
	images, err := stage.StartImages(b.Context(), image.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := images.Close(); err != nil {
			b.Error(err)
		}
	}()
	mark := "heteroflow-perf-" + strings.ToLower(rand.Text()[:8])
	return slices.DeleteFunc(append(containerdPaths(b, socket, mark, images), dockerPaths(b, host, mark, images)...), func(p path) bool {
		// Each is warm when it is measured. Networks need what may not be here.
		_, _, err := p.run(b.Context())
		optional := p.name == agentContainerdBridge || p.name == dockerRunBridge
		if err != nil && !optional {
			b.Fatal(err)
		}
		if err != nil {
			b.Logf("%s is not measured: %v", p.name, err)
		}
		return err != nil
	})
}

// pull puts the image where the runtime's daemon has it.
func pull(b *testing.B, rt runtime.Runtime, images *stage.Images) {
	b.Helper()
	auth := &runtime.RegistryAuth{Username: images.Auth().Username, Password: images.Auth().Password.Reveal()}
	if _, err := rt.Pull(b.Context(), runtime.PullRequest{Ref: images.Workload, Auth: auth}); err != nil {
		b.Fatal(err)
	}
}

// throughRuntime is the path of a task of the agent's.
func throughRuntime(name string, rt runtime.Runtime, image string, on runtime.NetworkMode, labels map[string]string) path {
	return path{name, func(ctx context.Context, id string) (func(context.Context) error, error) {
		c, err := rt.Create(ctx, runtime.Spec{
			Name: id, Image: image, Labels: labels,
			Network: runtime.Network{Mode: on}, IPC: runtime.IPCPrivate,
			Logs: runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 2},
		})
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			exit, err := rt.Wait(ctx, c.ID)
			if err != nil {
				return err
			}
			if exit.Code == nil || *exit.Code != 0 {
				return fmt.Errorf("container %s did not end with 0: %+v", id, exit)
			}
			return rt.Remove(ctx, c.ID)
		}, rt.Start(ctx, c.ID)
	}}
}

// BenchmarkStart runs one container of each path in turn, and another path first each
// time. Its metrics are medians: of create and start, and of the whole life.
func BenchmarkStart(b *testing.B) {
	paths := setUp(b)
	before := conditions()
	starts, cycles := map[string][]time.Duration{}, map[string][]time.Duration{}
	for round := 0; b.Loop(); round++ {
		for i := range paths {
			p := paths[(round+i)%len(paths)]
			started, cycle, err := p.run(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			starts[p.name] = append(starts[p.name], started)
			cycles[p.name] = append(cycles[p.name], cycle)
		}
	}
	for _, p := range paths {
		b.ReportMetric(milliseconds(median(starts[p.name])), p.name+"-start-ms")
		b.ReportMetric(milliseconds(median(cycles[p.name])), p.name+"-cycle-ms")
	}
	for _, against := range []string{containerdClient, dockerRun, dockerRunBridge} {
		if starts[against] != nil {
			b.ReportMetric(float64(median(starts[agentContainerd]))/float64(median(starts[against])), agentContainerd+"/"+against)
		}
	}
	b.ReportMetric(0, "ns/op")
	writeStarts(b.Output(), paths, starts, cycles)
	fmt.Fprintf(b.Output(), "from %s\nto %s\n", before, conditions())
}

// batch is how many containers a path runs before it is the next one's turn.
const batch = 20

// BenchmarkThroughput runs b.N containers of each path, a batch at a time, and reports how
// many a second lived and were removed.
func BenchmarkThroughput(b *testing.B) {
	paths := setUp(b)
	before := conditions()
	workers := []int{2, 4}
	rates := make([]map[string]float64, len(workers))
	for i, n := range workers {
		b.Run(fmt.Sprintf("workers=%d", n), func(b *testing.B) {
			took := map[string]time.Duration{}
			for left := b.N; left > 0; left -= batch {
				for _, p := range paths {
					took[p.name] += runBatch(b, p, min(left, batch), n)
				}
			}
			rates[i] = map[string]float64{}
			for _, p := range paths {
				rates[i][p.name] = float64(b.N) / took[p.name].Seconds()
				b.ReportMetric(rates[i][p.name], p.name+"/s")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	writeRates(b.Output(), paths, workers, rates)
	fmt.Fprintf(b.Output(), "from %s\nto %s\n", before, conditions())
}

// runBatch tells how long so many workers took for so many containers.
func runBatch(b *testing.B, p path, containers, workers int) time.Duration {
	b.Helper()
	began := time.Now()
	var running sync.WaitGroup
	var taken atomic.Int64
	for range workers {
		running.Go(func() {
			for taken.Add(1) <= int64(containers) {
				if _, _, err := p.run(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return time.Since(began)
}

func median(d []time.Duration) time.Duration { return percentile(d, 50) }

func percentile(d []time.Duration, p int) time.Duration {
	return slices.Sorted(slices.Values(d))[(len(d)-1)*p/100]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
