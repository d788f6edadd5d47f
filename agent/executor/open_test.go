package executor_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// held is what an agent holds of its process and of the disk.
type held struct{ Goroutines, Descriptors, Files int }

// holdsNow is the least that the agent holds within a minute: its loops hold more while they
// have a round.
func (n *node) holdsNow() held {
	n.t.Helper()
	least := held{1 << 30, 1 << 30, 0}
	for range 20 {
		time.Sleep(3 * time.Second)
		synctest.Wait()
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			n.t.Fatal(err)
		}
		least.Goroutines, least.Descriptors = min(least.Goroutines, runtime.NumGoroutine()), min(least.Descriptors, len(open))
	}
	err := filepath.WalkDir(n.dir, func(_ string, _ fs.DirEntry, err error) error {
		least.Files++
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return least
}

// endAll has the node run so many tasks, of which each fourth reaches its time limit.
func (n *node) endAll(tasks int) {
	n.t.Helper()
	ids := make([]string, tasks)
	for i := range ids {
		ids[i] = strconv.Itoa(len(n.daemon.Starts()) + i)
		n.plane.add(ids[i], image, func(task *protocol.Task) {
			if i%4 == 0 {
				task.TimeoutSeconds = 1
			}
		})
	}
	n.until(time.Hour, "all are over", func() bool {
		for len(ids) > 0 && n.plane.status(ids[0]).Terminal() && n.clean(ids[0]) {
			ids = ids[1:]
		}
		return len(ids) == 0
	})
}

func TestManyTasksLeaveNoGoroutineDescriptorOrFileBehind(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, runtimefake.Program{Runs: 2 * time.Second, Output: "done\n"})
		n.endAll(4)
		before := n.holdsNow()
		n.endAll(80)
		if diff := cmp.Diff(before, n.holdsNow()); diff != "" {
			t.Errorf("after the first tasks (-) and after the last (+):\n%s", diff)
		}
	})
}
