package containerd_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	task "github.com/containerd/containerd/api/runtime/task/v2"
	"github.com/containerd/ttrpc"
)

// deleteInShim deletes the task in its shim alone, as a containerd has done that dies before
// it has ended the shim.
func (f *fixture) deleteInShim(t *testing.T, id string) {
	t.Helper()
	address, err := os.ReadFile(filepath.Join(f.daemon.run, "state", "io.containerd.runtime.v2.task", namespace, id, "address"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("unix", strings.TrimPrefix(strings.TrimSpace(string(address)), "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	shim := ttrpc.NewClient(conn)
	if _, err := task.NewTTRPCTaskClient(shim).Delete(t.Context(), &task.DeleteRequest{ID: id}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(shim.Close(), shim.UserOnCloseWait(t.Context())); err != nil {
		t.Error(err)
	}
}

func TestAShimThatContainerdLeftWithoutATaskGoesWithItsContainer(t *testing.T) {
	f := setUp(t, flavours()[0])
	id := f.run(t, f.spec("exit", "3"))
	f.awaitRecord(t, id)
	f.kill(t)
	f.deleteInShim(t, id)
	f.start(t)
	shims := func() []int { return processesOf(t, "-id", id, "-address", f.socket()) }
	if left := shims(); len(left) != 1 {
		t.Fatalf("shims %v, want the one that containerd left", left)
	}
	if err := f.Remove(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the shim has ended", func() bool { return len(shims()) == 0 })
}
