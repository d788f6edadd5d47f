package executor_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// story is a task's life on a node, told from outside.
type story struct {
	program runtimefake.Program
	task    func(*protocol.Task)
	// tell makes the control plane change its mind, given the time since the task was
	// added. It is called every second.
	tell    func(n *node, after time.Duration)
	swapped bool   // it has a volume that is another than passed the fence
	want    ending // zero: nothing is reported
	last    protocol.TaskStatus
	runs    int // how often the program is started
}

var stories = map[string]story{
	"that completes": {
		program: runtimefake.Program{Runs: 20 * time.Second},
		want:    ending{protocol.StatusCompleted, protocol.ReasonExited, 0, false}, last: protocol.StatusCompleted, runs: 1,
	},
	"that is over before anybody looks": {
		program: runtimefake.Program{Code: 3},
		want:    ending{protocol.StatusFailed, protocol.ReasonExited, 3, false}, last: protocol.StatusFailed, runs: 1,
	},
	"that takes too long": {
		program: runtimefake.Program{Forever: true},
		task:    func(t *protocol.Task) { t.TimeoutSeconds = 20 },
		want:    ending{protocol.StatusFailed, protocol.ReasonTimeout, 124, false}, last: protocol.StatusFailed, runs: 1,
	},
	"that cannot be started": {
		program: runtimefake.Program{StartError: "exec format error"},
		want:    ending{protocol.StatusFailed, protocol.ReasonStartFailed, -1, false}, last: protocol.StatusFailed, runs: 0,
	},
	"whose volume was swapped": {
		program: runtimefake.Program{Forever: true, PID: os.Getpid()},
		swapped: true,
		want:    ending{protocol.StatusFailed, protocol.ReasonVolumeDenied, 137, false}, last: protocol.StatusFailed, runs: 1,
	},
	"that is stopped": {
		program: runtimefake.Program{Forever: true},
		tell: func(n *node, after time.Duration) {
			if after > 20*time.Second && n.plane.status("1") == protocol.StatusRunning {
				n.plane.setStatus("1", protocol.StatusStopping)
			}
		},
		want: ending{protocol.StatusStopped, protocol.ReasonStopped, 143, false}, last: protocol.StatusStopped, runs: 1,
	},
	"that is cancelled": {
		program: runtimefake.Program{Forever: true},
		tell: func(n *node, after time.Duration) {
			if after > 20*time.Second {
				n.plane.setStatus("1", protocol.StatusCancelled)
			}
		},
		last: protocol.StatusCancelled, runs: 1,
	},
	"that sleeps, wakes and is stopped": {
		program: runtimefake.Program{Forever: true},
		tell: func(n *node, after time.Duration) {
			switch status := n.plane.status("1"); {
			case after > 100*time.Second && status == protocol.StatusRunning:
				n.plane.setStatus("1", protocol.StatusStopping)
			case after > 20*time.Second && after < 60*time.Second && status == protocol.StatusRunning:
				n.plane.setStatus("1", protocol.StatusSleeping)
			case after > 60*time.Second && status == protocol.StatusAsleep:
				n.plane.setStatus("1", protocol.StatusWaking)
			}
		},
		want: ending{protocol.StatusStopped, protocol.ReasonStopped, 143, false}, last: protocol.StatusStopped, runs: 2,
	},
}

// play lets the story run to its end. The agent is killed at the killAt-th moment at which
// it can be, and another one started. It reports whether that moment came.
func (s story) play(n *node, killAt int64, away time.Duration) (killed bool) {
	var moments atomic.Int64
	struck := make(chan struct{})
	n.atMoments(func() {
		if moments.Add(1) == killAt {
			if err := n.agent.sever(); err != nil {
				n.t.Error(err)
			}
			close(struck)
		}
	})
	n.daemon.AddImage(image, s.program)
	n.plane.add("1", image, func(t *protocol.Task) {
		if s.task != nil {
			s.task(t)
		}
		if s.swapped {
			t.Volumes = []protocol.Volume{{HostPath: n.share, ContainerPath: "/dev"}}
		}
	})
	n.start()
	begun := time.Now()
	over := func() bool { return n.plane.status("1") == s.last && n.agent != nil && n.clean("1") }
	for time.Since(begun) < 30*time.Minute && !over() {
		select {
		case <-struck:
			struck = nil
			killed = true
			n.agent.loops.Wait()
			n.agent = nil
			time.Sleep(away)
			n.start()
		case <-time.After(time.Second):
		}
		if s.tell != nil {
			s.tell(n, time.Since(begun))
		}
	}
	return killed
}

func (s story) check(n *node) {
	n.t.Helper()
	if got := n.plane.status("1"); got != s.last {
		n.t.Errorf("the task is %s, want %s", got, s.last)
	}
	if s.want != (ending{}) {
		if diff := cmp.Diff(s.want, endingOf(n.t, n.plane.updates("1", over...))); diff != "" {
			n.t.Error(diff)
		}
	} else if updates := n.plane.updates("1", over...); len(updates) != 0 {
		n.t.Errorf("reported: %+v", updates)
	}
	if runs := n.starts("1", "1"); runs != s.runs {
		n.t.Errorf("the program was started %d times, want %d", runs, s.runs)
	}
	if made := n.daemon.Made(); made != 1 {
		n.t.Errorf("%d containers were made", made)
	}
	if left := n.daemon.Containers(); len(left) != 0 {
		n.t.Errorf("left behind: %+v", left)
	}
}

func TestATaskSurvivesTheDeathOfItsAgentAtAnyMoment(t *testing.T) {
	for name, s := range stories {
		t.Run("one "+name, func(t *testing.T) {
			for moment := int64(1); ; moment++ {
				came := true
				t.Run(fmt.Sprintf("moment %d", moment), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						n := newNode(t)
						defer n.check()
						came = s.play(n, moment, time.Duration(moment%3)*5*time.Second)
						s.check(n)
						if t.Failed() {
							n.dump()
						}
					})
				})
				if !came || t.Failed() {
					return
				}
			}
		})
	}
}

func TestATaskSurvivesRestartsInGoodOrder(t *testing.T) {
	for name, s := range stories {
		t.Run("one "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				defer n.check()
				tell := s.tell
				restarts := time.Now()
				s.tell = func(n *node, after time.Duration) {
					if tell != nil {
						tell(n, after)
					}
					if time.Since(restarts) > 13*time.Second {
						restarts = time.Now()
						n.restart()
					}
				}
				s.play(n, 0, 0)
				s.check(n)
			})
		})
	}
}
