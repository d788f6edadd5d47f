package containerd_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// bare does with containerd's own client what the Runtime does, and no more than its
// documentation shows: the default seccomp profile, a plain log file, no records.
type bare struct {
	c     *client.Client
	image client.Image
	dir   string
	oci   string
	next  atomic.Int64
}

func newBare(b *testing.B, f *fixture) *bare {
	b.Helper()
	c := f.client(b)
	img, err := c.GetImage(b.Context(), f.image)
	if err != nil {
		b.Fatal(err)
	}
	return &bare{c: c, image: img, dir: b.TempDir(), oci: f.oci}
}

// start returns how to end what it has started.
func (r *bare) start(ctx context.Context) (end func() error, err error) {
	ctx = namespaces.WithNamespace(ctx, namespace)
	id := fmt.Sprintf("bare-%d", r.next.Add(1))
	img, err := r.c.GetImage(ctx, r.image.Name())
	if err != nil {
		return nil, err
	}
	container, err := r.c.NewContainer(ctx, id,
		client.WithSnapshotter("overlayfs"), client.WithNewSnapshot(id, img),
		client.WithNewSpec(oci.WithImageConfigArgs(img, []string{"exit", "0"}), oci.WithHostNamespace(specs.NetworkNamespace),
			oci.WithHostHostsFile, oci.WithHostResolvconf, func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
				s.Version = "1.0.2" // for crun
				return nil
			}, seccomp.WithDefaultProfile()),
		client.WithRuntime("io.containerd.runc.v2", &options.Options{BinaryName: r.oci}))
	if err != nil {
		return nil, err
	}
	task, err := container.NewTask(ctx, cio.LogFile(filepath.Join(r.dir, id+".log")))
	if err != nil {
		return nil, err
	}
	ended, err := task.Wait(ctx)
	if err != nil {
		return nil, err
	}
	return func() error {
		<-ended
		if _, err := task.Delete(ctx); err != nil {
			return err
		}
		return container.Delete(ctx, client.WithSnapshotCleanup)
	}, task.Start(ctx)
}

// start is the same through the Runtime.
func (f *fixture) startForBench(ctx context.Context, n int64) (end func() error, err error) {
	spec := f.spec("exit", "0")
	spec.Name = fmt.Sprintf("ours-%d", n)
	c, err := f.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	return func() error {
		if _, err := f.Wait(ctx, c.ID); err != nil {
			return err
		}
		return f.Remove(ctx, c.ID)
	}, f.Start(ctx, c.ID)
}

func median(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Microseconds()) / 1000
}

// BenchmarkStart takes turns, so that both see the same noise of the machine. It reports
// medians in milliseconds: of create and start, and of these with wait and removal.
func BenchmarkStart(b *testing.B) {
	for _, fl := range flavours() {
		b.Run(fl.name, func(b *testing.B) {
			f := setUp(b, fl)
			r := newBare(b, f)
			var n int64
			times := map[string][]time.Duration{}
			measure := func(what string, start func() (func() error, error)) {
				began := time.Now()
				end, err := start()
				started := time.Since(began)
				if err == nil {
					err = end()
				}
				if err != nil {
					b.Fatal(what, err)
				}
				times[what+"-start-ms"] = append(times[what+"-start-ms"], started)
				times[what+"-cycle-ms"] = append(times[what+"-cycle-ms"], time.Since(began))
			}
			for b.Loop() {
				n++
				measure("ours", func() (func() error, error) { return f.startForBench(b.Context(), n) })
				measure("bare", func() (func() error, error) { return r.start(b.Context()) })
			}
			for what, d := range times {
				b.ReportMetric(median(d), what)
			}
			b.ReportMetric(median(times["ours-start-ms"])/median(times["bare-start-ms"]), "start-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkThroughput runs containers to their end and removes them, four at a time, and
// reports how many a second. -benchtime 200x is the figure of docs/performance.md.
func BenchmarkThroughput(b *testing.B) {
	const workers = 4
	for _, fl := range flavours() {
		b.Run(fl.name, func(b *testing.B) {
			f := setUp(b, fl)
			r := newBare(b, f)
			for name, start := range map[string]func(int64) (func() error, error){
				"ours": func(n int64) (func() error, error) { return f.startForBench(b.Context(), n) },
				"bare": func(int64) (func() error, error) { return r.start(b.Context()) },
			} {
				b.Run(name, func(b *testing.B) {
					var next atomic.Int64
					var wg sync.WaitGroup
					for range workers {
						wg.Go(func() {
							for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
								end, err := start(n)
								if err == nil {
									err = end()
								}
								if err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
					wg.Wait()
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "containers/s")
				})
			}
		})
	}
}
