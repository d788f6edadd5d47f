package executor_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/agent/preflight"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// space is what is free on a node, by directory. What was never set is not known.
type space struct {
	mu   sync.Mutex
	free map[string]preflight.Space
}

func (s *space) of(_ context.Context, dir string) (preflight.Space, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	free, known := s.free[dir]
	return free, known
}

// imageDir is where the node keeps images.
const imageDir = "/var/lib/fake"

func (s *space) images(ctx context.Context) (string, preflight.Space, bool) {
	free, known := s.of(ctx, imageDir)
	return imageDir, free, known
}

func (s *space) set(dir string, free preflight.Space) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == nil {
		s.free = make(map[string]preflight.Space)
	}
	s.free[dir] = free
}

const vllmImage = "registry.example/vllm-openai:v1"

// serves makes a task one that serves a model with an engine on four cards.
func serves(t *protocol.Task) {
	t.Type = protocol.TaskInference
	for _, uuid := range []string{"A", "B", "C", "D"} {
		t.Devices = append(t.Devices, protocol.TaskDevice{Vendor: protocol.DeviceNVIDIA, UUID: uuid})
	}
}

func TestAnEngineIsRefusedWhereTheHostHasTooLittleSharedMemoryAndOnlyThere(t *testing.T) {
	const gib = int64(1) << 30
	free := func(bytes int64) *preflight.Space { return &preflight.Space{Bytes: bytes} }
	cases := map[string]struct {
		image  string
		change func(*protocol.Task)
		free   *preflight.Space // nil: not known
		reason protocol.Reason  // empty: it runs
		ipc    runtime.IPC
		shm    int64
	}{
		"too little":                             {image: vllmImage, free: free(gib - 1), reason: protocol.ReasonShmTooSmall},
		"just enough":                            {image: vllmImage, free: free(gib), ipc: runtime.IPCHost},
		"nobody knows how much":                  {image: vllmImage, ipc: runtime.IPCHost},
		"too little, but the task has its own":   {image: vllmImage, change: func(t *protocol.Task) { t.ShmSizeBytes = 2 * gib }, free: free(0), ipc: runtime.IPCPrivate, shm: 2 * gib},
		"too little, but it is no engine":        {image: image, free: free(0), ipc: runtime.IPCPrivate, shm: 10 * gib},
		"too little, but it is a batch task":     {image: vllmImage, change: func(t *protocol.Task) { t.Type = "" }, free: free(0), ipc: runtime.IPCPrivate},
		"too little, and the task says ipc host": {image: vllmImage, change: func(t *protocol.Task) { t.IPC = protocol.IPCHost }, free: free(gib / 2), reason: protocol.ReasonShmTooSmall},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			withCards(t, runtimefake.Program{Forever: true}, func(n *node) {
				n.daemon.AddImage(vllmImage, runtimefake.Program{Forever: true})
				if tc.free != nil {
					n.space.set(preflight.HostShm, *tc.free)
				}
				n.plane.add("1", tc.image, serves, func(t *protocol.Task) {
					if tc.change != nil {
						tc.change(t)
					}
				})
				if tc.reason != "" {
					n.refused("1", tc.reason, "vllm on 4 card(s)", "1.0 GiB")
					if n.daemon.Made() != 0 {
						t.Error("a container was made")
					}
					return
				}
				n.runs("1")
				spec := n.daemon.Spec("task-1")
				if spec.IPC != tc.ipc || spec.Resources.ShmSizeBytes != tc.shm {
					t.Errorf("ipc %s with %d bytes of its own, want %s with %d", spec.IPC, spec.Resources.ShmSizeBytes, tc.ipc, tc.shm)
				}
			})
		})
	}
}

// Engines take the host's shared memory long after they were let in: what is free then is
// what is free now.
func TestEnginesThatAreLaunchedAtOnceAreNotPromisedTheSameSharedMemory(t *testing.T) {
	const mib = int64(1) << 20
	engine := func(t *protocol.Task) { t.Type = protocol.TaskInference }
	withCards(t, runtimefake.Program{Forever: true}, func(n *node) {
		n.daemon.Publish(vllmImage, runtimefake.Published{Program: runtimefake.Program{Forever: true}, Takes: time.Minute})
		n.space.set(preflight.HostShm, preflight.Space{Bytes: 300 * mib}) // for two, which need 128 MiB each
		for _, id := range []string{"1", "2", "3"} {
			n.plane.add(id, vllmImage, engine)
		}
		var run, failed []string
		n.until(5*time.Minute, "two of them run and one is refused", func() bool {
			run, failed = nil, nil
			for _, id := range []string{"1", "2", "3"} {
				switch {
				case n.plane.status(id) == protocol.StatusFailed:
					failed = append(failed, id)
				case n.state(id) == runtime.StateRunning:
					run = append(run, id)
				}
			}
			return len(run) == 2 && len(failed) == 1
		})
		n.refused(failed[0], protocol.ReasonShmTooSmall, "300 MiB (314572800 bytes) are free", "256 MiB (268435456 bytes) of these for tasks")

		// What was promised to one that has ended is there for the next.
		n.plane.setStatus(run[0], protocol.StatusStopping)
		n.ends(time.Minute, run[0], protocol.StatusStopped)
		n.plane.add("4", vllmImage, engine)
		n.runs("4")

		// What they have taken is not promised any more.
		n.space.set(preflight.HostShm, preflight.Space{Bytes: 44 * mib})
		n.plane.add("5", vllmImage, engine)
		n.refused("5", protocol.ReasonShmTooSmall, "44 MiB (46137344 bytes) are free: remove")
	})
}

func TestASharedMemoryLargerThanTheMemoryIsTold(t *testing.T) {
	withCards(t, runtimefake.Program{Forever: true}, func(n *node) {
		n.plane.add("1", image, func(t *protocol.Task) { t.ShmSizeBytes, t.MemoryBytes = 2<<30, 2<<30 })
		n.runs("1")
		if n.logged("is more than memory_bytes") {
			t.Error("an equal size is told of")
		}
		n.plane.add("2", image, func(t *protocol.Task) { t.ShmSizeBytes, t.MemoryBytes = 2<<30, 1<<30 })
		n.runs("2")
		if !n.logged("is more than memory_bytes") {
			t.Error("nothing is told")
		}
	})
}

func TestAnImageThatWouldFillTheDiskIsNotPulledAndAnyOtherIs(t *testing.T) {
	const remote, gib = "registry.example/remote:v1", int64(1) << 30
	large := runtime.Fetch{Layers: 3, PackedBytes: 10 * gib} // 30 GiB with what it is unpacked to
	inodes := int64(1000)
	cases := map[string]struct {
		fetch  runtime.Fetch
		free   *preflight.Space // nil: not known
		says   []string         // nothing: it is pulled and runs
		logged string
	}{
		"too few bytes":                 {large, &preflight.Space{Bytes: 30*gib - 1}, []string{remote, imageDir, "3 layers of 10.0 GiB", "30.0 GiB", "unpack_factor"}, ""},
		"too few inodes":                {large, &preflight.Space{Bytes: 99 * gib, Inodes: &inodes}, []string{"163840 inodes", "and 1000 inodes"}, ""},
		"just enough":                   {large, &preflight.Space{Bytes: 30 * gib}, nil, ""},
		"its layers are here already":   {runtime.Fetch{}, &preflight.Space{}, nil, ""},
		"nobody knows how much is free": {large, nil, nil, "what is free where images are kept is not known"},
		"nobody knows how large it is":  {runtime.Fetch{Unknown: errors.New("no answer")}, &preflight.Space{}, nil, "size of the image not known"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				if tc.free != nil {
					n.space.set(imageDir, *tc.free)
				}
				n.daemon.Publish(remote, runtimefake.Published{Program: runtimefake.Program{Forever: true}, Fetch: tc.fetch})
				n.plane.add("1", remote)
				if len(tc.says) > 0 {
					n.refused("1", protocol.ReasonImagePullFailed, tc.says...)
					if pulls := n.daemon.Pulls(remote); pulls != 1 {
						t.Errorf("tried %d times", pulls)
					}
					return
				}
				n.runs("1")
				if tc.logged != "" && !n.logged(tc.logged) {
					t.Error("nothing is logged of what is not known")
				}
			})
		})
	}
}

func TestALocalImageNeedsNoRoom(t *testing.T) {
	onNode(t, func(n *node) {
		n.space.set(imageDir, preflight.Space{})
		n.daemon.AddImage(image, runtimefake.Program{Forever: true})
		n.plane.add("1", image)
		n.runs("1")
	})
}

func TestARefusedTaskGivesItsCardsToTheNext(t *testing.T) {
	withCards(t, runtimefake.Program{Forever: true}, func(n *node) {
		n.space.set(preflight.HostShm, preflight.Space{})
		n.daemon.AddImage(vllmImage, runtimefake.Program{Forever: true})
		n.plane.add("1", vllmImage, serves)
		n.refused("1", protocol.ReasonShmTooSmall)
		n.space.set(preflight.HostShm, preflight.Space{Bytes: 1 << 40})
		n.plane.add("2", vllmImage, serves)
		n.runs("2")
		time.Sleep(time.Minute)
		if status := n.plane.status("2"); status != protocol.StatusRunning {
			t.Errorf("task 2 is %s", status)
		}
		if text := n.plane.updates("1", protocol.StatusFailed)[0].ErrorMessage; !strings.Contains(text, "0 bytes") {
			t.Errorf("message %q", text)
		}
	})
}
