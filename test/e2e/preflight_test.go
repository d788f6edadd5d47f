package e2e

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/heteroflow/node-agent/devserver"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/image"
)

// noise pushes the workload, by a name of its own, with a layer that no daemon has had before.
func noise(t *testing.T, size int64) string {
	t.Helper()
	shared.Prepare(t)
	img, err := image.Build(t.Context(), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	layer, err := random.Layer(size, types.OCILayer)
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.AppendLayers(img, layer); err != nil {
		t.Fatal(err)
	}
	ref, err := shared.Images().Push(img, "heteroflow/noise:"+strings.ToLower(rand.Text()))
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// No disk has room for an image whose every byte becomes a million. The same image, seen as
// it is, is pulled and runs.
func TestAnImageThatWouldFillTheDiskIsRefusedBeforeItIsPulled(t *testing.T) {
	onEachRuntime(t, "", func(t *testing.T, on runtime.Name) {
		ref := noise(t, 4<<20)
		w := newWorldOn(t, on, devserver.Features{}, "pull.unpack_factor=1000000")
		w.Start()
		large := w.Task(w.Agent.NodeID+"-large", "exit", "0")
		large.Image = ref
		w.Submit(large)
		refused := w.Reaches(large.ID, protocol.StatusFailed)
		for _, want := range []string{"no room for image " + ref, "are missing", "bytes) are free", "pull.unpack_factor"} {
			if !strings.Contains(refused.Outcome.ErrorMessage, want) {
				t.Errorf("%q does not say %q", refused.Outcome.ErrorMessage, want)
			}
		}
		if refused.Outcome.Reason != protocol.ReasonImagePullFailed {
			t.Errorf("reason %s", refused.Outcome.Reason)
		}
		w.Gone(large.ID)

		w = newWorldOn(t, on, devserver.Features{})
		w.Start()
		fits := w.Task(w.Agent.NodeID+"-fits", "exit", "0")
		fits.Image = ref
		w.Submit(fits)
		w.Reaches(fits.ID, protocol.StatusCompleted)
		w.Gone(fits.ID)
	})
}

// Work that serves a model with an engine shares the host's memory where that suffices, and
// has one of its own where the task says so.
func TestAnEngineSharesMemoryAsItsDocumentsSay(t *testing.T) {
	onEachRuntime(t, "", func(t *testing.T, on runtime.Name) {
		w := newWorldOn(t, on, devserver.Features{})
		w.Start()
		own := w.Task(w.Agent.NodeID+"-own", "print-self")
		own.Type, own.Engine, own.ShmSizeBytes = protocol.TaskInference, "vllm", 123<<20
		hosts := w.Task(w.Agent.NodeID+"-hosts", "print-self")
		hosts.Type, hosts.Engine = protocol.TaskInference, "vllm"
		for _, task := range []protocol.Task{own, hosts} {
			w.Submit(task)
			done := w.Reaches(task.ID, protocol.StatusCompleted)
			if has := strings.Contains(done.Outcome.LogTail, "128974848"); has != (task.ID == own.ID) {
				t.Errorf("%s: %s", task.ID, done.Outcome.LogTail)
			}
			w.Gone(task.ID)
		}
	})
}

// What the operator has mounted in a directory is as read-only for a task as the directory.
func TestAReadOnlyVolumeIsSoWithAllThatIsMountedBelowIt(t *testing.T) {
	onEachRuntime(t, "", func(t *testing.T, on runtime.Name) {
		w := newWorldOn(t, on, devserver.Features{})
		w.Start()
		dir := filepath.Join(w.Agent.Dir, "volume")
		point := filepath.Join(dir, "mounted")
		if err := errors.Join(os.MkdirAll(point, 0o755), syscall.Mount("none", point, "tmpfs", 0, "")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		for _, readOnly := range []bool{true, false} {
			task := w.Task(fmt.Sprintf("%s-read-only-%t", w.Agent.NodeID, readOnly), "print-self", "--writable", "/v", "--writable", "/v/mounted")
			task.Volumes = []protocol.Volume{{HostPath: dir, ContainerPath: "/v", ReadOnly: readOnly}}
			w.Submit(task)
			tail := w.Reaches(task.ID, protocol.StatusCompleted).Outcome.LogTail
			if want := fmt.Sprintf(`"writable":{"/v":%t,"/v/mounted":%[1]t}`, !readOnly); !strings.Contains(tail, want) {
				t.Errorf("read only %t: %s", readOnly, tail)
			}
			w.Gone(task.ID)
		}
	})
}
