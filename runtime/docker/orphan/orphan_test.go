package orphan_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/runtime/docker/orphan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ours, other = strings.Repeat("0123456789abcdef", 4), strings.Repeat("f", 64)

// put writes the files of a process into a process file system of the test's own.
func put(t *testing.T, proc, pid string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(proc, pid), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(proc, pid, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAProcessIsFoundByWhatTheKernelSaysOfIt(t *testing.T) {
	lives := "7 (a) b) S 1 7 7"
	cases := map[string]struct {
		files map[string]string
		want  []string
	}{
		"in a cgroup of version 1":               {map[string]string{"stat": lives, "cgroup": "4:memory:/docker/" + ours + "\n1:name=systemd:/\n"}, []string{ours}},
		"in a cgroup of version 2":               {map[string]string{"stat": lives, "cgroup": "0::/docker/" + ours + "\n"}, []string{ours}},
		"in a scope of systemd's":                {map[string]string{"stat": lives, "cgroup": "0::/system.slice/docker-" + ours + ".scope\n"}, []string{ours}},
		"in a cgroup the container made":         {map[string]string{"stat": lives, "cgroup": "0::/docker/" + ours + "/init/job\n"}, []string{ours}},
		"seen from another cgroup namespace":     {map[string]string{"stat": lives, "cgroup": "0::/../../docker/" + ours + "\n"}, []string{ours}},
		"in a container in a container":          {map[string]string{"stat": lives, "cgroup": "0::/docker/" + ours + "/docker/" + other + "\n"}, []string{ours, other}},
		"a shim":                                 {map[string]string{"stat": lives, "cgroup": "0::/system.slice/containerd.service\n", "cmdline": "/usr/bin/containerd-shim-runc-v2\x00-namespace\x00moby\x00-id\x00" + ours + "\x00-address\x00/run/c.sock\x00"}, []string{ours}},
		"one that only names a container":        {map[string]string{"stat": lives, "cgroup": "0::/user.slice\n", "cmdline": "docker\x00logs\x00-id\x00" + ours + "\x00"}, nil},
		"a shim of something else":               {map[string]string{"stat": lives, "cgroup": "0::/\n", "cmdline": "/usr/bin/containerd-shim-runc-v2\x00-id\x00task-1\x00"}, nil},
		"what clears up after a shim":            {map[string]string{"stat": lives, "cgroup": "0::/\n", "cmdline": "/usr/bin/containerd-shim-runc-v2\x00-id\x00" + ours + "\x00delete\x00"}, nil},
		"a shim cut short":                       {map[string]string{"stat": lives, "cgroup": "0::/\n", "cmdline": "containerd-shim-runc-v2\x00-id"}, nil},
		"one that has ended and is not reaped":   {map[string]string{"stat": "7 (x) Z 1 7 7", "cgroup": "0::/docker/" + ours + "\n"}, nil},
		"one that goes while it is looked at":    {map[string]string{}, nil},
		"one whose files are not the kernel's":   {map[string]string{"stat": "?", "cgroup": ours, "cmdline": ours}, nil},
		"in a container whose id is cut":         {map[string]string{"stat": lives, "cgroup": "0::/docker/" + ours[:63] + "\n"}, nil},
		"of the machine":                         {map[string]string{"stat": lives, "cgroup": "0::/init.scope\n", "cmdline": "/sbin/init\x00"}, nil},
		"in a container, and ended while reaped": {map[string]string{"stat": "7 (x) X 1 7 7", "cgroup": "0::/docker/" + ours + "\n"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			proc := t.TempDir()
			put(t, proc, "7", tc.files)
			put(t, proc, "sys", map[string]string{"stat": lives, "cgroup": "0::/docker/" + ours})
			want := map[string][]int{}
			for _, id := range tc.want {
				want[id] = []int{7}
			}
			got, err := orphan.Scan(proc)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v\n%s", err, diff)
			}
		})
	}
}

func TestWithoutAProcessFileSystemNothingIsKnown(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	if got, err := orphan.Scan(none); err == nil {
		t.Errorf("got %v", got)
	}
	if err := orphan.End(t.Context(), none, ours); err == nil {
		t.Error("the container is said to have ended")
	}
}

// sleeper starts a process that the process file system of the test says to be in the
// container; whether it lives it says as the kernel's own does.
func sleeper(t *testing.T, proc, id string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1h")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	put(t, proc, pid, map[string]string{"cgroup": "0::/docker/" + id + "\n"})
	if err := os.Symlink(filepath.Join("/proc", pid, "stat"), filepath.Join(proc, pid, "stat")); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestTheProcessesOfAContainerAreEndedAndNoOthers(t *testing.T) {
	proc := t.TempDir()
	mine, another, theirs := sleeper(t, proc, ours), sleeper(t, proc, ours), sleeper(t, proc, other)
	ended := make(chan error, 2)
	for _, cmd := range []*exec.Cmd{mine, another} {
		go func() { ended <- cmd.Wait() }()
	}
	if err := orphan.End(t.Context(), proc, ours); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-ended; err == nil || err.Error() != "signal: killed" {
			t.Errorf("it ended with %v", err)
		}
	}
	living, err := orphan.Scan(proc)
	if diff := cmp.Diff(map[string][]int{other: {theirs.Process.Pid}}, living); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if err := theirs.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = theirs.Wait() // says that it was killed
}

func TestAProcessThatDoesNotEndIsNamed(t *testing.T) {
	proc := t.TempDir()
	cmd := sleeper(t, proc, ours)
	// To the test's process file system it lives on.
	stat := filepath.Join(proc, strconv.Itoa(cmd.Process.Pid), "stat")
	if err := errors.Join(os.Remove(stat), os.WriteFile(stat, []byte("7 (x) D 1 7 7"), 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := orphan.End(ctx, proc, ours)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), fmt.Sprint(cmd.Process.Pid)) {
		t.Errorf("got %v", err)
	}
	_ = cmd.Wait() // says that it was killed
}
