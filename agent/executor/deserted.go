package executor

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/process"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// A runtime whose shim was killed may say for ever that a container runs although its
// process is gone, and its Wait never end (moby/moby#43491, containerd/containerd#8285). How
// such a run ended nobody will ever say: it is lost.

// Processes tells the processes of this machine apart.
type Processes interface {
	// Of is the first process of a container, by the pid the runtime gives it; false: it is
	// not there or cannot be told to be the container's.
	Of(containerID string, pid int) (process.Process, bool)
	// Gone tells whether a process is certainly not there any more.
	Gone(p process.Process) bool
}

// Run is the process of one run of a container.
type Run struct {
	process.Process
	StartedAt time.Time `json:"started_at"` // as the runtime says
}

// A runtime hears of an end later than the kernel: a process must be found gone this many
// times, so far apart, with the runtime saying each time that it runs.
const (
	desertedLooks = 3
	desertedPause = 30 * time.Second
)

// absence counts how often the process of a run was found gone.
type absence struct {
	looks int
	last  time.Time
}

// deserted looks for the process of a container that its runtime says is running, at most
// one look each pause, and reports whether it is gone for good. A process that was never
// seen in the container is not missed.
func (t *task) deserted(c runtime.Container) bool {
	if t.e.Processes == nil || c.State != runtime.StateRunning || c.PID == 0 {
		return false
	}
	known := t.record.Run
	if known == nil || known.PID != c.PID || !known.StartedAt.Equal(c.StartedAt) {
		t.absence = absence{}
		if seen, ok := t.e.Processes.Of(c.ID, c.PID); ok {
			t.remember(func(r *Record) { r.Run = &Run{Process: seen, StartedAt: c.StartedAt} })
		}
		return false
	}
	switch now := time.Now(); {
	case !t.e.Processes.Gone(known.Process):
		t.absence = absence{}
	case now.Sub(t.absence.last) >= desertedPause:
		t.absence = absence{looks: t.absence.looks + 1, last: now}
	}
	return t.absence.looks >= desertedLooks
}

// withoutProcess is the result of a task whose container is deserted; nil: nobody waits for
// one.
func (t *task) withoutProcess(c runtime.Container) *Result {
	t.log.Error("the runtime says that the container runs, and its process is gone", logging.ContainerID(c.ID), zap.Int("pid", c.PID))
	if t.wanted() == wantNothing {
		return nil
	}
	result := Result{ContainerID: c.ID}.overruled(protocol.ReasonContainerLost,
		fmt.Sprintf("the container runtime says that the container runs, but its process (%d) is gone: its shim was killed, perhaps; how it ended is not known", c.PID))
	return &result
}
