package runtimetest

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/ulimit"
	"github.com/heteroflow/node-agent/test/workload/report"
)

func (s *suite) testLimits(t *testing.T) {
	t.Run("cpu, memory and pids limits are in the container's cgroup", s.cgroupLimits)
	t.Run("without limits there are none", func(t *testing.T) {
		pid := s.inspect(t, s.start(t, s.spec("sleep", "10m")).ID).PID
		for _, l := range []limit{cpu, memory, pids} {
			none := float64(1 << 60) // on v1 the largest number of pages
			if l == pids {
				none = 1 << 22 // the kernel has no more than those
			}
			if got := l.read(t, pid); got < none {
				t.Errorf("%s is %v", l.v1, got)
			}
		}
	})
	t.Run("open files and locked memory suffice for GPU work", s.processLimits)
	t.Run("the pids limit holds", func(t *testing.T) {
		spec := s.spec("forkbomb", "--max", "200")
		spec.Resources.PidsLimit = 64
		forks := decode[report.Forks](t, s.output(t, spec))
		if forks.Started >= 64 || forks.Error == "" {
			t.Errorf("got %+v with a limit of 64", forks)
		}
	})
	t.Run("shm has the size asked for, by default 64 MiB, with ipc host the host's", func(t *testing.T) {
		for size, want := range map[int64]uint64{0: 64 << 20, 123 << 20: 123 << 20, 3 << 30: 3 << 30} {
			spec := s.spec()
			spec.Resources.ShmSizeBytes = size
			if self := s.self(t, spec); self.ShmBytes == nil || *self.ShmBytes != want {
				t.Errorf("asked for %d, got %s", size, bytesOf(self.ShmBytes))
			}
		}
		var fs syscall.Statfs_t
		if err := syscall.Statfs("/dev/shm", &fs); err != nil {
			t.Fatal(err)
		}
		host := fs.Blocks * uint64(fs.Bsize)
		mounted := s.spec()
		mounted.Mounts = []runtime.Mount{{Source: "/dev/shm", Target: "/dev/shm"}}
		if self := s.self(t, mounted); self.ShmBytes == nil || *self.ShmBytes != host {
			t.Errorf("with the host's mounted: got %s, want %d", bytesOf(self.ShmBytes), host)
		}
		spec := s.spec()
		spec.IPC = runtime.IPCHost
		if self := s.self(t, spec); self.ShmBytes == nil || *self.ShmBytes != host {
			t.Errorf("with ipc host: got %s, want %d", bytesOf(self.ShmBytes), host)
		}
	})
}

// processLimits: the daemon under test is the system's or one of the test's own, and has all
// the rights of this process.
func (s *suite) processLimits(t *testing.T) {
	may, err := ulimit.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	pid := s.inspect(t, s.start(t, s.spec("sleep", "10m")).ID).PID
	for resource, want := range map[int]uint64{unix.RLIMIT_NOFILE: may.OpenFiles, unix.RLIMIT_MEMLOCK: may.LockedMemory} {
		var got unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &got); err != nil {
			t.Fatal(err)
		}
		if got.Cur != want || got.Max != want {
			t.Errorf("resource %d: soft %d, hard %d, want %d", resource, got.Cur, got.Max, want)
		}
	}
}

func bytesOf(n *uint64) string {
	if n == nil {
		return "none"
	}
	return strconv.FormatUint(*n, 10)
}

func (s *suite) cgroupLimits(t *testing.T) {
	spec := s.spec("sleep", "10m")
	spec.Resources = runtime.Resources{CPUs: 0.5, MemoryBytes: 96 << 20, PidsLimit: 77}
	c := s.start(t, spec)
	for _, warning := range c.Warnings {
		t.Log(warning)
	}
	pid := s.inspect(t, c.ID).PID
	want := map[limit]float64{cpu: 0.5, memory: 96 << 20, swap: 96 << 20, pids: 77}
	if !cgroupV1() {
		want[swap] = 0 // there it is counted apart from memory
	}
	for l, value := range want {
		if got := l.read(t, pid); got != value {
			t.Errorf("%s is %v, want %v", l.v1, got, value)
		}
	}
}

// limit is where the kernel shows one limit of a cgroup, in both of its versions.
type limit struct{ controller, v1, v2 string }

var (
	cpu    = limit{"cpu", "cpu.cfs_quota_us", "cpu.max"}
	memory = limit{"memory", "memory.limit_in_bytes", "memory.max"}
	swap   = limit{"memory", "memory.memsw.limit_in_bytes", "memory.swap.max"}
	pids   = limit{"pids", "pids.max", "pids.max"}
)

// read returns the limit of the process's cgroup: cores, bytes or processes.
func (l limit) read(t *testing.T, pid int) float64 {
	t.Helper()
	membership, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(membership)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) != 3:
			t.Fatalf("cgroup line %q", line)
		case slices.Contains(strings.Split(fields[1], ","), l.controller):
			dir := filepath.Join("/sys/fs/cgroup", l.controller, fields[2])
			if l != cpu {
				return number(t, readLine(t, filepath.Join(dir, l.v1)))
			}
			return ratio(t, readLine(t, filepath.Join(dir, l.v1)), readLine(t, filepath.Join(dir, "cpu.cfs_period_us")))
		case fields[1] == "" && !cgroupV1():
			value := readLine(t, filepath.Join("/sys/fs/cgroup", fields[2], l.v2))
			if l != cpu {
				return number(t, value)
			}
			quota, period, _ := strings.Cut(value, " ")
			return ratio(t, quota, period)
		}
	}
	t.Fatalf("process %d has no cgroup for %s:\n%s", pid, l.controller, membership)
	return 0
}

func cgroupV1() bool {
	_, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes")
	return err == nil
}

func readLine(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// number reads a limit, of which there are two ways to say none.
func number(t *testing.T, text string) float64 {
	t.Helper()
	if text == "max" || text == "-1" {
		return math.Inf(1)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ratio(t *testing.T, quota, period string) float64 {
	t.Helper()
	return number(t, quota) / number(t, period)
}
