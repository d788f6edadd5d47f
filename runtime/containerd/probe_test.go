package containerd_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd"
)

func TestAProbeAnswersThoughTheDaemonIsAwayOrHangs(t *testing.T) {
	dir := t.TempDir()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	hung, err := net.Listen("unix", filepath.Join(dir, "hung.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = hung.Close() }()
	for name, socket := range map[string]string{"away": filepath.Join(dir, "none.sock"), "hangs": filepath.Join(dir, "hung.sock")} {
		t.Run(name, func(t *testing.T) {
			r := connect(t, containerd.Options{Address: socket, LogBinary: binary, StateDir: dir, RunDir: dir})
			began := time.Now()
			_, err := r.Probe(t.Context())
			if !errors.Is(err, runtime.ErrUnavailable) || !strings.Contains(err.Error(), socket) {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took > 20*time.Second { // twice what is promised: the machine is busy
				t.Errorf("it took %v", took)
			}
		})
	}
}
