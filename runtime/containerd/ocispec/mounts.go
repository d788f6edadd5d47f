package ocispec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/heteroflow/node-agent/runtime"
)

// mounts are Docker's, then our files, then the task's own, which may lie over them.
func mounts(in Input) []specs.Mount {
	m := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
	}
	m = append(m, ipcMounts(in)...)
	for _, file := range []struct{ source, target string }{
		{in.Hosts, "/etc/hosts"}, {in.ResolvConf, "/etc/resolv.conf"}, {in.HostnameFile, "/etc/hostname"},
	} {
		if file.source != "" {
			m = append(m, specs.Mount{Destination: file.target, Type: "bind", Source: file.source, Options: []string{"rbind", "rprivate", "rw"}})
		}
	}
	// Outer mounts first: an inner one would be hidden by it.
	own := slices.Clone(in.Spec.Mounts)
	slices.SortStableFunc(own, func(a, b runtime.Mount) int {
		return strings.Count(a.Target, "/") - strings.Count(b.Target, "/")
	})
	for _, mount := range own {
		m = append(m, taskMount(mount))
	}
	return m
}

func ipcMounts(in Input) []specs.Mount {
	if in.Spec.IPC == runtime.IPCHost {
		bind := []string{"rbind", "rprivate", "nosuid", "noexec", "nodev"}
		m := []specs.Mount{{Destination: "/dev/shm", Type: "bind", Source: "/dev/shm", Options: bind}}
		if in.HostQueues {
			m = append(m, specs.Mount{Destination: "/dev/mqueue", Type: "bind", Source: "/dev/mqueue", Options: bind})
		}
		return m
	}
	size := in.Spec.Resources.ShmSizeBytes
	if size == 0 {
		size = defaultShmSize
	}
	return []specs.Mount{
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", fmt.Sprintf("size=%d", size)}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
	}
}

// taskMount binds with private propagation, so that nothing the task mounts below it
// reaches the host.
func taskMount(m runtime.Mount) specs.Mount {
	access := "rw"
	if m.ReadOnly {
		access = "ro"
	}
	return specs.Mount{Destination: m.Target, Type: "bind", Source: m.Source, Options: []string{"rbind", "rprivate", access}}
}
