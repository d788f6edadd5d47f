package ulimit_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/heteroflow/node-agent/runtime/ulimit"
)

func TestLimitsStayWithinWhatTheDaemonMayGive(t *testing.T) {
	got, err := ulimit.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if got.OpenFiles == 0 || got.OpenFiles > 1<<20 || got.LockedMemory == 0 {
		t.Errorf("got %+v", got)
	}
	got, err = ulimit.Of(-1)
	if err == nil || got != ulimit.Wanted {
		t.Errorf("of no process: got %+v, %v, want what GPU work wants and an error", got, err)
	}
}

func TestTheDaemonIsWhoListensOnItsSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	want, err := ulimit.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ulimit.OfSocket(socket); err != nil || got != want {
		t.Errorf("got %+v, %v, want those of this process, %+v", got, err, want)
	}
	if got, err := ulimit.OfSocket(socket + ".none"); err == nil || got != ulimit.Wanted {
		t.Errorf("of no socket: got %+v, %v", got, err)
	}
}
