package containerd_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd/record"
)

// begun leaves a container whose run was begun on that boot, by an agent that died before
// it asked containerd for anything.
func (f *fixture) begun(t *testing.T, boot string) string {
	t.Helper()
	id := f.create(t, f.spec("exit", "5"))
	run := record.Run{ID: "begun", StartedAt: time.Now(), UnaskedOn: boot, LogMaxBytes: 1 << 20, LogMaxFiles: 2}
	if err := record.Dir(filepath.Join(f.options(t).StateDir, namespace, id)).Begin(run); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestARunThatWasBegunAndNeverAskedForHasNotRun(t *testing.T) {
	f := setUp(t, flavours()[0])
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("and can be started", func(t *testing.T) {
		id := f.begun(t, strings.TrimSpace(string(boot)))
		if now := f.inspect(t, id); now.State != runtime.StateCreated || !now.StartedAt.IsZero() || now.Exit != nil || now.StartError != "" {
			t.Errorf("got %+v, want one that never ran", now)
		}
		_, err := f.Wait(t.Context(), id)
		if !errors.Is(err, runtime.ErrConflict) {
			t.Errorf("wait: got %v, want a conflict", err)
		}
		if err := f.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		exit, err := f.Wait(t.Context(), id)
		if err != nil || exit.Code == nil || *exit.Code != 5 {
			t.Errorf("got %+v, %v", exit, err)
		}
	})
	t.Run("which nobody can tell after the machine was booted", func(t *testing.T) {
		id := f.begun(t, "an earlier boot")
		if now := f.inspect(t, id); now.State != runtime.StateExited || now.Exit == nil || now.Exit.Code != nil {
			t.Errorf("got %+v, want one that ended nobody knows how", now)
		}
	})
}

func TestAStartWaitsForAnEarlierOneThatIsUnderWay(t *testing.T) {
	eachFlavour(t, func(t *testing.T, fl flavour) {
		f := setUp(t, fl)
		id := f.create(t, f.spec("exit", "5"))
		// containerd makes this directory before it starts a shim.
		bundle := filepath.Join(f.daemon.run, "state", "io.containerd.runtime.v2.task", namespace, id)
		if err := os.MkdirAll(bundle, 0o711); err != nil {
			t.Fatal(err)
		}
		if err := f.Start(t.Context(), id); !errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("start: got %v, want one to be tried again", err)
		}
		if now := f.inspect(t, id); now.State != runtime.StateCreated {
			t.Errorf("got %+v, want one that never ran", now)
		}
		if err := os.Remove(bundle); err != nil {
			t.Fatal(err)
		}
		if err := f.Start(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		exit, err := f.Wait(t.Context(), id)
		if err != nil || exit.Code == nil || *exit.Code != 5 {
			t.Errorf("got %+v, %v", exit, err)
		}
	}, "system-runc", "2.4-runc")
}
