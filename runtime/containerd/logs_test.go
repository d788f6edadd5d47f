package containerd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd"
	"github.com/heteroflow/node-agent/runtime/containerd/logshim"
)

func TestLogsReadAcrossRotationsAndStayWithinTheirBound(t *testing.T) {
	eachFlavour(t, func(t *testing.T, fl flavour) {
		f := setUp(t, fl)
		spec := f.spec("spam-logs", "--lines", "5000")
		spec.Logs = runtime.LogLimits{MaxBytes: 32 << 10, MaxFiles: 3}
		id := f.run(t, spec)
		if exit, err := f.Wait(t.Context(), id); err != nil || exit.Code == nil || *exit.Code != 0 {
			t.Fatalf("got %+v, %v", exit, err)
		}
		files, err := filepath.Glob(filepath.Join(f.options(t).StateDir, namespace, id, "output.log*"))
		if err != nil || len(files) != 3 {
			t.Errorf("files %q, %v", files, err)
		}
		for _, file := range files {
			if info, err := os.Stat(file); err != nil || info.Size() > 32<<10 {
				t.Errorf("%s: %+v, %v", file, info, err)
			}
		}
		all, err := f.Logs(t.Context(), id, runtime.LogOptions{TailBytes: 1 << 20})
		if err != nil || len(all) < 40<<10 {
			t.Errorf("%d bytes are left, %v", len(all), err)
		}
		end, err := f.Logs(t.Context(), id, runtime.LogOptions{TailBytes: 40 << 10})
		if err != nil || !strings.HasSuffix(string(all), string(end)) || len(end) != 40<<10 {
			t.Errorf("a tail of 40 KiB has %d bytes, %v", len(end), err)
		}
	}, "system-runc", "2.4-runc")
}

func TestAFullDiskNeitherStopsATaskNorHidesItsExit(t *testing.T) {
	f := setUp(t, flavours()[0])
	state := f.options(t).StateDir
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	command(t, "mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", state)
	spec := f.spec("spam-logs", "--lines", "20000", "--width", "100") // four times what the disk holds
	spec.Logs = runtime.LogLimits{MaxBytes: 64 << 20, MaxFiles: 2}
	id := f.run(t, spec)
	exit, err := f.Wait(t.Context(), id)
	if err != nil || exit.Code == nil || *exit.Code != 0 {
		t.Errorf("got %+v, %v", exit, err)
	}
	if out, err := f.Logs(t.Context(), id, runtime.LogOptions{TailBytes: 4 << 20}); err != nil || len(out) < 100<<10 || len(out) > 512<<10 {
		t.Errorf("of its output %d bytes are left, %v", len(out), err)
	}
	if err := f.Remove(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// The agent's own command is what tasks get where nothing else is installed.
func TestTheLogShimIsTheProgramBesideTheAgentIfThereIsOne(t *testing.T) {
	eachFlavour(t, func(t *testing.T, fl flavour) {
		f := setUp(t, fl)
		id := f.run(t, f.spec("sleep", "10m"))
		pids := processesOf(t, logshim.Command, filepath.Join(f.options(t).StateDir, namespace, id))
		if len(pids) != 1 {
			t.Fatalf("log shims %v, want one", pids)
		}
		got, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pids[0]))
		if err != nil {
			t.Fatal(err)
		}
		want := filepath.Join(filepath.Dir(agentBinary(t, false)), containerd.LogShim)
		if fl.alone {
			want = agentBinary(t, true)
		}
		if got != want {
			t.Errorf("the log shim is %s, want %s", got, want)
		}
	}, "system-runc", "system-crun")
}
