package peer_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/heteroflow/node-agent/runtime/peer"
)

func TestTheProcessThatListensIsFound(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if pid, err := peer.Of(socket); err != nil || pid != os.Getpid() {
		t.Errorf("got %d, %v, want this process, %d", pid, err, os.Getpid())
	}
}

func TestASocketThatNobodyListensOnIsAnError(t *testing.T) {
	if pid, err := peer.Of(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Errorf("got %d", pid)
	}
}
