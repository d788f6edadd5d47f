package cards

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/agent/taskcontainer"
)

// container makes the /dev of process 7 below a directory that stands for /proc: what
// every container has, and the given nodes, which all lead to /dev/null.
func container(t *testing.T, nodes ...string) *Cards {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("making device nodes needs root")
	}
	c := &Cards{proc: t.TempDir()}
	dev := filepath.Join(c.proc, "7", "root", "dev")
	for _, name := range append([]string{"null", "shm/fake", "pts/0"}, nodes...) {
		at := filepath.Join(dev, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), unix.Mknod(at, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func devNull(path string) taskcontainer.Node {
	return taskcontainer.Node{Path: path, Type: "c", Major: 1, Minor: 3}
}

func TestTheDeviceNodesOfAContainerAreThoseItWasGiven(t *testing.T) {
	other := taskcontainer.Node{Path: "/dev/card0", Type: "c", Major: 195, Minor: 0}
	cases := map[string]struct {
		there   []string
		given   []taskcontainer.Node
		missing []taskcontainer.Node
		extra   []taskcontainer.Node
	}{
		"none given and none there": {},
		"all that was given":        {there: []string{"card0", "dri/card1"}, given: []taskcontainer.Node{devNull("/dev/card0"), devNull("/dev/dri/card1")}},
		"one that is missing":       {given: []taskcontainer.Node{devNull("/dev/card0")}, missing: []taskcontainer.Node{devNull("/dev/card0")}},
		"one that nobody gave":      {there: []string{"dri/card1"}, extra: []taskcontainer.Node{devNull("/dev/dri/card1")}},
		"another device of the name": {
			there: []string{"card0"}, given: []taskcontainer.Node{other},
			missing: []taskcontainer.Node{other}, extra: []taskcontainer.Node{devNull("/dev/card0")},
		},
		"another device under a usual name": {there: []string{"zero"}, extra: []taskcontainer.Node{devNull("/dev/zero")}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := container(t, tc.there...).Verify(7, taskcontainer.Devices{Expect: tc.given})
			var want error
			if len(tc.missing)+len(tc.extra) > 0 {
				want = &taskcontainer.MismatchError{Missing: tc.missing, Extra: tc.extra}
			}
			if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestALinkInAContainerLeadsNobodyOutOfIt(t *testing.T) {
	c := container(t)
	if err := os.Symlink("/dev", filepath.Join(c.proc, "7/root/dev/host")); err != nil {
		t.Fatal(err)
	}
	if err := c.Verify(7, taskcontainer.Devices{}); err != nil {
		t.Error(err)
	}
	// Even /dev itself may be one.
	dev := filepath.Join(c.proc, "7/root/dev")
	if err := errors.Join(os.RemoveAll(dev), os.Symlink("/proc/self/root/dev", dev)); err != nil {
		t.Fatal(err)
	}
	err := c.Verify(7, taskcontainer.Devices{})
	if _, mismatch := errors.AsType[*taskcontainer.MismatchError](err); err == nil || mismatch {
		t.Errorf("it was followed: %v", err)
	}
}

func TestAContainerThatIsGoneIsNoMismatch(t *testing.T) {
	c := &Cards{proc: t.TempDir()}
	err := c.Verify(7, taskcontainer.Devices{Expect: []taskcontainer.Node{devNull("/dev/card0")}})
	if _, mismatch := errors.AsType[*taskcontainer.MismatchError](err); err == nil || mismatch {
		t.Errorf("got %v, want an error that is no mismatch", err)
	}
}

func TestADirectoryWithoutEndIsGivenUp(t *testing.T) {
	c := container(t)
	dev := filepath.Join(c.proc, "7/root/dev")
	for i := range maxEntries + 1 {
		if err := os.WriteFile(filepath.Join(dev, fmt.Sprint(i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Verify(7, taskcontainer.Devices{}); !errors.Is(err, errTooMany) {
		t.Errorf("got %v", err)
	}
}
