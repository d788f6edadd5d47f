package executor_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/runtimefake"
)

// ours runs until it is ended, in this very process: its root is the host's, so that a
// volume that is mounted at its own path is the one it was given.
var ours = runtimefake.Program{Forever: true, PID: os.Getpid()}

// mounted makes a task mount a directory at a path.
func mounted(host, target string) func(*protocol.Task) {
	return func(t *protocol.Task) { t.Volumes = []protocol.Volume{{HostPath: host, ContainerPath: target}} }
}

var denied = ending{protocol.StatusFailed, protocol.ReasonVolumeDenied, 137, false}

// swap puts another directory in the place of one.
func swap(t testing.TB, dir string) {
	t.Helper()
	if err := errors.Join(os.Rename(dir, dir+".old"), os.Mkdir(dir, 0o700)); err != nil {
		t.Error(err)
	}
}

// onStart has something happen once, when the program is started for the nth time.
func (n *node) onStart(nth int, happen func()) {
	var once sync.Once
	n.atMoments(func() {
		if len(n.daemon.Starts()) == nth {
			once.Do(happen)
		}
	})
}

func TestAContainerWithTheVolumesItWasGivenRunsAndIsLookedIntoOnce(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, ours)
		n.plane.add("1", image, mounted(n.share, n.share))
		n.runs("1")
		time.Sleep(time.Minute)
		// Were it looked into again, it would be found to have another.
		swap(t, n.share)
		n.restart()
		time.Sleep(10 * time.Minute)
		if n.state("1") != runtime.StateRunning {
			t.Error("it was killed")
		}
	})
}

func TestAVolumeIsRefusedByTheFenceHoweverItsPathIsWritten(t *testing.T) {
	cases := map[string]struct {
		path func(share string) string
		says string // empty: it is allowed
	}{
		"a step upwards":                    {func(share string) string { return share + "/../etc" }, `".."`},
		"a step upwards that stays inside":  {func(share string) string { return share + "/a/.." }, `".."`},
		"a path from nowhere in particular": {func(string) string { return "data" }, "not absolute"},
		"another directory":                 {func(string) string { return "/etc" }, "outside"},
		"a slash at the end":                {func(share string) string { return share + "/" }, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.daemon.AddImage(image, ours)
				n.plane.add("1", image, mounted(tc.path(n.share), n.share))
				if tc.says != "" {
					n.refused("1", protocol.ReasonVolumeDenied, tc.says)
				} else {
					n.runs("1")
				}
			})
		})
	}
}

func TestAContainerThatGotAnotherVolumeIsKilled(t *testing.T) {
	onNode(t, func(n *node) {
		n.daemon.AddImage(image, ours)
		n.plane.add("1", image, mounted(n.share, "/dev"))
		n.ends(2*time.Minute, "1", protocol.StatusFailed)
		if diff := cmp.Diff(denied, endingOf(t, n.plane.updates("1", over...))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAProgramDoesNotRunWithAnotherVolumeWhereItCanBeHeldBack(t *testing.T) {
	never := ending{protocol.StatusFailed, protocol.ReasonVolumeDenied, -1, false}
	cases := map[string]struct {
		target func(share string) string
		pid    int
		want   ending
	}{
		"it has another":              {func(string) string { return "/dev" }, os.Getpid(), never},
		"it has the one it was given": {func(share string) string { return share }, os.Getpid(), ending{protocol.StatusCompleted, protocol.ReasonExited, 0, false}},
		"its process cannot be seen":  {func(string) string { return "/dev" }, 1 << 30, ending{protocol.StatusCompleted, protocol.ReasonExited, 0, false}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				n.gated = true
				n.restart()
				n.daemon.AddImage(image, runtimefake.Program{PID: tc.pid})
				n.plane.add("1", image, mounted(n.share, tc.target(n.share)))
				n.ends(2*time.Minute, "1", tc.want.Status)
				if diff := cmp.Diff(tc.want, endingOf(t, n.plane.updates("1", over...))); diff != "" {
					t.Error(diff)
				}
				if ran := len(n.daemon.Starts()) > 0; ran != (tc.want.Status == protocol.StatusCompleted) {
					t.Errorf("its program ran: %t", ran)
				}
			})
		})
	}
}

func TestAVolumeThatIsSwappedDuringAStartIsFoundByTheNextAgent(t *testing.T) {
	onNode(t, func(n *node) {
		dir := filepath.Join(n.share, "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		n.daemon.AddImage(image, ours)
		dead := make(chan struct{})
		n.onStart(1, func() {
			swap(t, dir)
			if err := n.agent.sever(); err != nil {
				t.Error(err)
			}
			close(dead)
		})
		n.plane.add("1", image, mounted(dir, dir))
		<-dead
		n.agent.loops.Wait()
		n.agent = nil
		if n.state("1") != runtime.StateRunning {
			t.Fatalf("the container is %s", n.state("1"))
		}
		n.start()
		n.ends(5*time.Minute, "1", protocol.StatusFailed)
		if diff := cmp.Diff(denied, endingOf(t, n.plane.updates("1", over...))); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAVolumeIsLookedAtAgainWithEachWake(t *testing.T) {
	other := func(n *node, dir string) {
		if err := errors.Join(os.Rename(dir, dir+".old"), os.Symlink(n.share, dir)); err != nil {
			n.t.Error(err)
		}
	}
	cases := map[string]struct {
		meanwhile func(n *node, dir string)
		woken     bool
	}{
		"nothing happened to it":                 {func(*node, string) {}, true},
		"a new directory is in its place":        {func(_ *node, dir string) { swap(t, dir) }, true},
		"its path leads elsewhere":               {other, false},
		"it is gone":                             {func(_ *node, dir string) { _ = os.Remove(dir) }, false},
		"the container gets another than passed": {func(n *node, dir string) { n.onStart(2, func() { swap(n.t, dir) }) }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			onNode(t, func(n *node) {
				dir := filepath.Join(n.share, "data")
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				n.daemon.AddImage(image, ours)
				n.plane.add("1", image, mounted(dir, dir))
				n.runs("1")
				n.plane.setStatus("1", protocol.StatusSleeping)
				n.fallsAsleep()
				tc.meanwhile(n, dir)
				n.plane.setStatus("1", protocol.StatusWaking)
				if tc.woken {
					n.until(time.Minute, "awake", func() bool { return n.plane.status("1") == protocol.StatusRunning })
					time.Sleep(time.Minute)
					if n.state("1") != runtime.StateRunning {
						t.Errorf("the container is %s", n.state("1"))
					}
					return
				}
				n.ends(2*time.Minute, "1", protocol.StatusFailed)
				if got := n.plane.updates("1", protocol.StatusFailed)[0].Reason; got != protocol.ReasonVolumeDenied {
					t.Errorf("reason %s", got)
				}
			})
		})
	}
}

func TestOtherDevicesAreReportedByTheNextAgentToo(t *testing.T) {
	withCards(t, ours, func(n *node) {
		n.devices = &shelf{mismatch: &taskcontainer.MismatchError{Extra: []taskcontainer.Node{{Path: "/dev/card9", Type: "c"}}}}
		n.restart()
		n.plane.add("1", image, card("A"))
		n.runs("1")
		for range 2 {
			time.Sleep(time.Minute)
			if health := n.agent.executor.Health(); len(health) != 1 {
				t.Errorf("health %+v", health)
			}
			n.restart()
		}
	})
}
