package faults

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/heteroflow/node-agent/devserver/operator"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/cluster"
)

// A diskTrouble makes it impossible to write to the file system at a directory.
type diskTrouble struct {
	begin, end func(dir string) error
	// during is how a task ends that is claimed meanwhile, on containerd.
	during protocol.Reason
}

var diskTroubles = map[string]diskTrouble{
	"a full disk": {
		begin: func(dir string) error {
			f, err := os.Create(filepath.Join(dir, "filler"))
			if err != nil {
				return err
			}
			for size := 64 << 10; size > 0; { // to the last byte
				if _, err = f.Write(make([]byte, size)); err != nil {
					size /= 2
				}
			}
			if !errors.Is(err, syscall.ENOSPC) {
				return errors.Join(err, f.Close())
			}
			return f.Close()
		},
		end:    func(dir string) error { return os.Remove(filepath.Join(dir, "filler")) },
		during: protocol.ReasonStartFailed,
	},
	"a read-only disk": {
		begin:  makeReadOnly,
		end:    func(dir string) error { return syscall.Mount("", dir, "", syscall.MS_REMOUNT, "") },
		during: protocol.ReasonExited, // once there is none
	},
}

// makeReadOnly does what the kernel refuses while somebody is writing there.
func makeReadOnly(dir string) error {
	for deadline := time.Now().Add(cluster.Patience); ; {
		err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
			return err
		}
		<-time.After(time.Millisecond)
	}
}

// ownDisk gives the agent's state a small file system of its own.
func (n *node) ownDisk() {
	n.T.Helper()
	dir := n.Agent.StateDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		n.T.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		n.T.Fatal(err)
	}
	n.T.Cleanup(func() {
		n.Agent.Kill()
		if err := syscall.Unmount(dir, 0); err != nil {
			n.T.Error(err)
		}
	})
}

func TestTasksGoOnWithAStateDirectoryThatCannotBeWritten(t *testing.T) {
	e := calmEngines(t)
	for name, trouble := range diskTroubles {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, lane(0).place(e, runtime.Docker))
			n.ownDisk()
			n.Start()
			before := n.task("before", "sleep", "1h")
			n.Submit(before)
			n.Eventually("it runs", func() bool { return n.starts(before.ID) == 1 })
			if err := trouble.begin(n.Agent.StateDir()); err != nil {
				t.Fatal(err)
			}

			during := n.task("during", "exit", "3")
			n.Submit(during)
			failed := n.Reaches(during.ID, protocol.StatusFailed)
			if *failed.Outcome.ExitCode != 3 || failed.Outcome.Reason != protocol.ReasonExited {
				t.Errorf("%+v", failed.Outcome)
			}
			running := n.task("running", "sleep", "1h")
			n.Submit(running)
			n.Eventually("it runs", func() bool { return n.starts(running.ID) == 1 })
			n.Beats("word of it", func(hb protocol.Heartbeat) bool {
				return strings.Contains(hb.ErrorMessage, "cannot be written to the state directory")
			})

			n.Agent.Kill()
			n.Start()
			n.Beats("both live", func(hb protocol.Heartbeat) bool { return len(hb.LiveTaskIDs) == 2 })
			for _, id := range []string{before.ID, running.ID} {
				n.Act(id, operator.ActionStop)
				n.Reaches(id, protocol.StatusStopped)
			}
			if err := trouble.end(n.Agent.StateDir()); err != nil {
				t.Fatal(err)
			}
			n.awaitNothingLeft()
			for _, id := range []string{before.ID, during.ID, running.ID} {
				if starts, reports := n.starts(id), n.reports(id); starts != 1 || len(reports) != 1 {
					t.Errorf("%s: started %d times, reported %+v", id, starts, reports)
				}
			}
		})
	}
}

func TestTasksOnContainerdEndAsTheyDidWithAStateDirectoryThatCannotBeWritten(t *testing.T) {
	e := calmEngines(t)
	for name, trouble := range diskTroubles {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, lane(0).place(e, runtime.Containerd))
			n.ownDisk()
			n.Start()
			ends, stopped := n.task("ends", "sleep", "1h"), n.task("stopped", "sleep", "1h")
			n.Submit(ends)
			n.Submit(stopped)
			n.Beats("both live", func(hb protocol.Heartbeat) bool {
				return len(hb.LiveTaskIDs) == 2 && n.starts(ends.ID) == 1 && n.starts(stopped.ID) == 1
			})
			pid := n.Container(ends.ID).PID
			if err := trouble.begin(n.Agent.StateDir()); err != nil {
				t.Fatal(err)
			}

			during := n.task("during", "exit", "3")
			if trouble.during == protocol.ReasonStartFailed { // before what ends makes room
				n.Submit(during)
				n.Reaches(during.ID, protocol.StatusFailed)
			}
			n.Agent.Kill()
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			n.Eventually("it has ended", func() bool { return slices.Contains(n.noted(ends.ID), "end-143") })
			n.Start()
			failed := n.Reaches(ends.ID, protocol.StatusFailed)
			if failed.Outcome.Reason != protocol.ReasonExited || failed.Outcome.ExitCode == nil || *failed.Outcome.ExitCode != 143 {
				t.Errorf("%+v", failed.Outcome)
			}
			n.Act(stopped.ID, operator.ActionStop)
			n.Reaches(stopped.ID, protocol.StatusStopped)
			if trouble.during == protocol.ReasonExited {
				n.Submit(during)
				n.Eventually("it is claimed", func() bool { return n.read(during.ID).Status == protocol.StatusRunning })
			}
			if err := trouble.end(n.Agent.StateDir()); err != nil {
				t.Fatal(err)
			}
			if outcome := n.Reaches(during.ID, protocol.StatusFailed).Outcome; outcome.Reason != trouble.during {
				t.Errorf("what was claimed meanwhile: %+v", outcome)
			}
			n.awaitNothingLeft()
			for _, id := range []string{ends.ID, stopped.ID} {
				if starts, reports := n.starts(id), n.reports(id); starts != 1 || len(reports) != 1 {
					t.Errorf("%s: started %d times, reported %+v", id, starts, reports)
				}
			}
		})
	}
}
