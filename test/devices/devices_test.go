package devices_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/agent/cards"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi"
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
	"github.com/heteroflow/node-agent/gpu/visibility"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/image"
	"github.com/heteroflow/node-agent/test/registry"
	"github.com/heteroflow/node-agent/test/workload/report"
)

// patience bounds what a daemon does. On two busy cores a container takes seconds.
const patience = 2 * time.Minute

// videoGID owns the nodes of the cards, which are closed to others.
const videoGID = 3344

const firstUUID, secondUUID = "GPU-00000000-0000-0000-0000-00000000000a", "GPU-00000000-0000-0000-0000-00000000000b"

// host is a machine with two NVIDIA cards: the first has the higher minor number. Their
// nodes stand for /dev/zero and /dev/null, whose numbers do no harm.
type host struct{ root string }

func newHost(t *testing.T) host {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("device nodes need root")
	}
	h := host{t.TempDir()}
	for name, minor := range map[string]uint32{"dev/nvidia1": 5, "dev/nvidia0": 3, "dev/nvidiactl": 7} {
		at := filepath.Join(h.root, name)
		err := errors.Join(
			os.MkdirAll(filepath.Dir(at), 0o755), unix.Mknod(at, unix.S_IFCHR, int(unix.Mkdev(1, minor))),
			os.Chown(at, 0, videoGID), os.Chmod(at, 0o660),
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"usr/lib/x86_64-linux-gnu/libcuda.so.550.1", "usr/bin/nvidia-smi"} {
		at := filepath.Join(h.root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte("driver"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("libcuda.so.550.1", filepath.Join(h.root, "usr/lib/x86_64-linux-gnu/libcuda.so.1")); err != nil {
		t.Fatal(err)
	}
	return h
}

// Ready and Snapshot make the host an inventory of cards.
func (host) Ready() <-chan struct{} {
	ready := make(chan struct{})
	close(ready)
	return ready
}

func (host) Snapshot() gpu.Snapshot {
	card := func(index, minor int, uuid string) gpu.Device {
		return gpu.Device{Vendor: gpu.NVIDIA, Type: gpu.NVIDIA, Index: new(index), Minor: new(minor), UUID: uuid}
	}
	return gpu.Snapshot{Type: gpu.NVIDIA, Devices: []gpu.Device{card(0, 1, firstUUID), card(1, 0, secondUUID)}}
}

func (host) Renew(ctx context.Context) error { return ctx.Err() }

func (h host) cards(specs string) *cards.Cards {
	return cards.New(cards.Options{
		Inventory: h, Log: zap.NewNop(), Period: time.Minute,
		Generator: &cdi.Generator{Dir: specs, Host: hostfs.FS{Root: h.root, EngineRoot: h.root}},
	})
}

// specsDir is where CDI specs go in this run.
func specsDir(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(specsVariable)
	if dir == "" {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.Remove(filepath.Join(dir, "heteroflow-nvidia.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
	return dir
}

// pushed is an image that asks for every card, as CUDA's do, in a registry of the test's.
func pushed(t *testing.T) string {
	t.Helper()
	img, err := image.Build(t.Context(), image.Options{Env: []string{"NVIDIA_VISIBLE_DEVICES=all", "CUDA_VISIBLE_DEVICES=7"}})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := registry.Start(registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := reg.Close(); err != nil {
			t.Error(err)
		}
	})
	ref, err := reg.Push(img, "devices:v1")
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// run makes and starts the task's container as the agent does, looks at it from outside
// while it runs, and returns what it saw from inside.
func run(t *testing.T, w way, c *cards.Cards, task protocol.Task) report.Devices {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	devices, err := c.Resolve(ctx, task, w.info)
	if err != nil {
		t.Fatal(err)
	}
	builder := taskcontainer.Builder{LogLimits: runtime.LogLimits{MaxBytes: 1 << 20, MaxFiles: 1}}
	look := func(args ...string) (id string) {
		task.ID, task.Args = "devices-"+strings.ToLower(rand.Text()[:8]), args
		blueprint, err := builder.Build(task, devices, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		made, err := w.rt.Create(ctx, blueprint.Spec)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := w.rt.Remove(context.WithoutCancel(ctx), made.ID); err != nil {
				t.Error(err)
			}
		})
		if err := w.rt.Start(ctx, made.ID); err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	running, err := w.rt.Inspect(ctx, look("sleep", "10m"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Verify(running.PID, devices); err != nil {
		t.Errorf("seen from outside: %v", err)
	}
	id := look("print-devices")
	exit, err := w.rt.Wait(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.rt.Logs(ctx, id, runtime.LogOptions{TailBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	var seen report.Devices
	if err := json.Unmarshal(out, &seen); err != nil {
		t.Fatalf("exit %+v: %v in %q", exit, err, out)
	}
	return seen
}

// view is the part of a report that devices have to do with.
type view struct {
	Nodes  []report.Node // beside those of every container
	Mounts []string      // of the vendor
	Env    map[string]string
}

var everywhere = []string{
	"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/console", "/dev/ptmx", "/dev/pts/ptmx",
}

func viewOf(d report.Devices) view {
	v := view{Env: map[string]string{}}
	for _, n := range d.Nodes {
		if !slices.Contains(everywhere, string(n.Path)) {
			v.Nodes = append(v.Nodes, n)
		}
	}
	for _, m := range d.Mounts {
		if strings.HasPrefix(string(m), "/usr/") {
			v.Mounts = append(v.Mounts, string(m))
		}
	}
	slices.Sort(v.Mounts)
	for _, kv := range d.Env {
		name, value, _ := strings.Cut(string(kv), "=")
		if visibility.Chooses(name) || strings.HasPrefix(name, "CUDA_") || name == "MINE" {
			v.Env[name] = value
		}
	}
	return v
}

// silent is what the environment of any container says to the vendors' runtimes.
func silent(more map[string]string) map[string]string {
	env := map[string]string{}
	for _, kv := range visibility.Env(nil) {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	maps.Copy(env, more)
	return env
}

func node(path string, minor uint32) report.Node {
	return report.Node{Path: report.Text(path), Type: "char", Major: 1, Minor: minor, Mode: "0660", Access: "rw"}
}

var driver = []string{
	"/usr/bin/nvidia-smi", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.550.1",
}

func TestAContainerSeesTheSameHoweverItGotItsDevices(t *testing.T) {
	h := newHost(t)
	cases := map[string]struct {
		change func(*protocol.Task)
		want   view
	}{
		"one card": {
			func(t *protocol.Task) {
				t.Devices = []protocol.TaskDevice{{Vendor: protocol.DeviceNVIDIA, Index: new(0), UUID: firstUUID}}
			},
			view{
				[]report.Node{node("/dev/nvidia1", 5), node("/dev/nvidiactl", 7)},
				driver,
				silent(map[string]string{"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
			},
		},
		"both cards, as a user who is in no group": {
			func(t *protocol.Task) {
				t.Devices = []protocol.TaskDevice{{Index: new(1)}, {UUID: firstUUID}}
				t.User = image.AppUser
			},
			view{
				[]report.Node{node("/dev/nvidia0", 3), node("/dev/nvidia1", 5), node("/dev/nvidiactl", 7)},
				driver,
				silent(map[string]string{"CUDA_VISIBLE_DEVICES": "0,1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
			},
		},
		"one card, and an environment that wants more": {
			func(t *protocol.Task) {
				t.Devices = []protocol.TaskDevice{{UUID: secondUUID}}
				t.Env = []string{"NVIDIA_VISIBLE_DEVICES=all", "CUDA_VISIBLE_DEVICES=0,1", "CUDA_DEVICE_ORDER=FASTEST_FIRST", "MINE=1"}
			},
			view{
				[]report.Node{node("/dev/nvidia0", 3), node("/dev/nvidiactl", 7)},
				driver,
				silent(map[string]string{"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "MINE": "1"}),
			},
		},
		"no card, though the image wants all": {
			func(*protocol.Task) {},
			// What the image says to its own process does no harm where there is no node.
			view{nil, nil, silent(map[string]string{"CUDA_VISIBLE_DEVICES": "7"})},
		},
	}
	ref := pushed(t)
	for name, open := range ways {
		t.Run(name, func(t *testing.T) {
			specs := specsDir(t)
			w := open(t, specs)
			c := h.cards(specs)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if _, err := w.rt.Pull(ctx, runtime.PullRequest{Ref: ref}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := w.removeImage(context.WithoutCancel(t.Context()), ref); err != nil {
					t.Error(err)
				}
			})
			for name, tc := range cases {
				t.Run(name, func(t *testing.T) {
					task := protocol.Task{ID: "x", Status: protocol.StatusRunning, NodeID: "devices-test", Image: ref, Network: protocol.NetworkHost}
					tc.change(&task)
					if diff := cmp.Diff(tc.want, viewOf(run(t, w, c, task))); diff != "" {
						t.Errorf("-want +got:\n%s", diff)
					}
				})
			}
		})
	}
}
