package containerd_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/heteroflow/node-agent/runtime"
)

func TestAProgramRunsOnlyIfTheLookIntoItsContainerFindsNothing(t *testing.T) {
	eachFlavour(t, func(t *testing.T, fl flavour) {
		f := setUp(t, fl)
		var gated runtime.Gated = f.Runtime
		dir := t.TempDir()
		ran := filepath.Join(dir, "ran")
		spec := f.spec("note", "/v/ran", "exit", "5")
		spec.Mounts = []runtime.Mount{{Source: dir, Target: "/v"}}
		id := f.create(t, spec)

		no := errors.New("no")
		err := gated.StartIf(t.Context(), id, func(pid int) error {
			seen, errSeen := os.Stat(fmt.Sprintf("/proc/%d/root/v", pid))
			given, errGiven := os.Stat(dir)
			if err := errors.Join(errSeen, errGiven); err != nil || !os.SameFile(seen, given) {
				t.Errorf("the volume is not there yet: %v", err)
			}
			return no
		})
		if !errors.Is(err, no) || !errors.Is(err, runtime.ErrStartFailed) {
			t.Errorf("got %v, want the answer of the look", err)
		}
		if now := f.inspect(t, id); now.State != runtime.StateCreated || !now.StartedAt.IsZero() || now.PID != 0 {
			t.Errorf("got %+v, want one that never ran", now)
		}
		if _, err := os.Stat(ran); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("its program has run: %v", err)
		}

		if err := gated.StartIf(t.Context(), id, func(int) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if exit, err := f.Wait(t.Context(), id); err != nil || exit.Code == nil || *exit.Code != 5 {
			t.Errorf("got %+v, %v", exit, err)
		}
		if _, err := os.Stat(ran); err != nil {
			t.Error(err)
		}
	}, "system-runc", "system-crun", "2.4-runc")
}
