package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/heteroflow/node-agent/test/workload/report"
)

// accessWrite is W_OK of access(2), which package syscall does not name.
const accessWrite = 2

func printSelf(_ context.Context, s streams, args []string) (int, error) {
	var paths []string
	flags := newFlags("print-self", s)
	flags.Func("writable", "also tell whether this `path` is writable; may be repeated", func(path string) error {
		paths = append(paths, path)
		return nil
	})
	if err := parse(flags, args, 0, 0); err != nil {
		return exitUsage, err
	}
	self := report.Self{UID: os.Getuid(), GID: os.Getgid()}
	err := errors.Join(
		describeProcess(&self),
		describeNamespaces(&self),
		describeLimits(&self),
	)
	if err != nil {
		return exitError, err
	}
	for _, path := range paths {
		if self.Writable == nil {
			self.Writable = map[string]bool{}
		}
		self.Writable[path] = syscall.Access(path, accessWrite) == nil
	}
	return exitOK, printJSON(s.out, self)
}

func describeProcess(self *report.Self) error {
	groups, err := os.Getgroups()
	if err != nil {
		return fmt.Errorf("read groups: %w", err)
	}
	self.Groups = append([]int{}, groups...)
	slices.Sort(self.Groups)
	cwd, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("read working directory: %w", err)
	}
	self.Cwd = report.Text(cwd)
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("read status: %w", err)
	}
	self.Status = pickStatus(status, "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
	return nil
}

func pickStatus(status []byte, keys ...string) map[string]string {
	picked := map[string]string{}
	for line := range strings.Lines(string(status)) {
		if key, value, ok := strings.Cut(line, ":"); ok && slices.Contains(keys, key) {
			picked[key] = strings.TrimSpace(value)
		}
	}
	return picked
}

func describeNamespaces(self *report.Self) error {
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read hostname: %w", err)
	}
	self.Hostname = hostname
	var ipc syscall.Stat_t
	if err := syscall.Stat("/proc/self/ns/ipc", &ipc); err != nil {
		return fmt.Errorf("read ipc namespace: %w", err)
	}
	self.IPCNamespace = ipc.Ino
	self.Interfaces, err = interfaces()
	return err
}

func interfaces() ([]report.Interface, error) {
	found, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	described := []report.Interface{}
	for _, i := range found {
		addresses, err := i.Addrs()
		if err != nil {
			return nil, fmt.Errorf("list addresses of %s: %w", i.Name, err)
		}
		d := report.Interface{Name: i.Name, Up: i.Flags&net.FlagUp != 0, Addresses: []string{}}
		for _, a := range addresses {
			d.Addresses = append(d.Addresses, a.String())
		}
		described = append(described, d)
	}
	return described, nil
}

func describeLimits(self *report.Self) error {
	var shm syscall.Statfs_t
	switch err := syscall.Statfs("/dev/shm", &shm); {
	case err == nil:
		self.ShmBytes = new(shm.Blocks * uint64(shm.Bsize))
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read shm size: %w", err)
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return fmt.Errorf("read cgroup: %w", err)
	}
	self.Cgroup = cgroupLimits("/sys/fs/cgroup", unifiedPath(membership))
	return nil
}

// unifiedPath is the process's group in the cgroup v2 hierarchy, "/" when it
// has none or sees its own group as the root.
func unifiedPath(membership []byte) string {
	for line := range bytes.Lines(membership) {
		if path, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("0::")); ok {
			return filepath.Clean("/" + string(path))
		}
	}
	return "/"
}

// cgroupLimits reads what is visible beneath root: the v2 files of the group at
// unified, else of root itself, and the v1 files of each controller's mount,
// which engines bind to the container's own group.
func cgroupLimits(root, unified string) map[string]string {
	places := []struct {
		dirs  []string
		files []string
	}{
		{[]string{unified, "/"}, []string{"memory.max", "memory.swap.max", "cpu.max", "pids.max", "cpuset.cpus.effective"}},
		{[]string{"memory"}, []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"}},
		{[]string{"cpu", "cpu,cpuacct"}, []string{"cpu.cfs_quota_us", "cpu.cfs_period_us"}},
		{[]string{"pids"}, []string{"pids.max"}},
		{[]string{"cpuset"}, []string{"cpuset.cpus"}},
	}
	limits := map[string]string{}
	for _, place := range places {
		for _, file := range place.files {
			for _, dir := range place.dirs {
				data, err := os.ReadFile(filepath.Join(root, dir, file))
				if err == nil {
					limits[file] = string(bytes.TrimSpace(data))
					break
				}
			}
		}
	}
	return limits
}
