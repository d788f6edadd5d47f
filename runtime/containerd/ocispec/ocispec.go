// Package ocispec builds the OCI runtime specification of a task's container from the
// task and its image: what Docker would give it, with limits that suit GPU work. It
// decides nothing about networks, snapshots or devices beyond the default ones, and it
// only reads. It starts no goroutines.
package ocispec

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/moby/profiles/seccomp"
	"github.com/moby/sys/user"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/ulimit"
)

// version is what the spec uses. crun up to at least 1.8 refuses versions it does not
// know by number, so it is the lowest that has all fields set here.
const version = "1.0.2"

// defaultShmSize is Docker's.
const defaultShmSize = 64 << 20

// defaultPath is Docker's, for images that name none.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Input is what a container's spec is made from.
type Input struct {
	Spec     runtime.Spec
	Image    ocispec.ImageConfig
	User     user.ExecUser // who Spec.User, or else the image's user, is in the image
	Hostname string

	// Files of the host that are bound over the image's, empty for none.
	Hosts, ResolvConf, HostnameFile string

	NetNS       string // path of the network namespace of a bridge network
	CgroupsPath string // absolute, below each controller's root
	Limits      ulimit.Limits
	Cgroup2     bool
	LimitSwap   bool // the kernel accounts for swap
	HostQueues  bool // the host has /dev/mqueue
}

// Command is what a container of this spec and image runs. runtime.ErrInvalid if neither
// says.
func Command(s runtime.Spec, image ocispec.ImageConfig) ([]string, error) {
	entrypoint, args := s.Entrypoint, s.Args
	if len(entrypoint) == 0 {
		entrypoint = image.Entrypoint
		if len(args) == 0 {
			args = image.Cmd
		}
	}
	command := slices.Concat(entrypoint, args)
	if len(command) == 0 || command[0] == "" {
		return nil, fmt.Errorf("%w: the task names no command and image %s has none", runtime.ErrInvalid, s.Image)
	}
	return command, nil
}

// Build makes the spec.
func Build(in Input) (*specs.Spec, error) {
	command, err := Command(in.Spec, in.Image)
	if err != nil {
		return nil, err
	}
	s := &specs.Spec{
		Version:  version,
		Root:     &specs.Root{Path: "rootfs"},
		Hostname: in.Hostname,
		Mounts:   mounts(in),
		Process: &specs.Process{
			Args:            command,
			Env:             environment(in),
			Cwd:             workingDir(in),
			User:            processUser(in.User),
			Capabilities:    capabilities(),
			NoNewPrivileges: true,
			Rlimits:         rlimits(in.Limits),
			// Or it would inherit that of the shim, which containerd protects.
			OOMScoreAdj: new(0),
		},
		Linux: &specs.Linux{
			CgroupsPath:   in.CgroupsPath,
			Namespaces:    namespaces(in),
			Resources:     resources(in),
			MaskedPaths:   slices.Clone(maskedPaths),
			ReadonlyPaths: slices.Clone(readonlyPaths),
			Sysctl:        sysctls(in),
		},
	}
	// The profile depends on the capabilities, so it comes after them.
	if s.Linux.Seccomp, err = seccomp.GetDefaultProfile(s); err != nil {
		return nil, fmt.Errorf("build seccomp profile: %w", err)
	}
	return s, nil
}

func processUser(u user.ExecUser) specs.User {
	su := specs.User{UID: uint32(u.Uid), GID: uint32(u.Gid)} // moby/sys/user keeps ids below 2^31
	// The primary group is among the supplementary ones, as with Docker since 20.10.
	su.AdditionalGids = append(su.AdditionalGids, su.GID)
	for _, gid := range u.Sgids {
		if !slices.Contains(su.AdditionalGids, uint32(gid)) {
			su.AdditionalGids = append(su.AdditionalGids, uint32(gid))
		}
	}
	return su
}

func workingDir(in Input) string {
	switch {
	case in.Spec.WorkingDir != "":
		return in.Spec.WorkingDir
	case in.Image.WorkingDir != "":
		return path.Join("/", in.Image.WorkingDir)
	default:
		return "/"
	}
}

// environment joins the image's variables and the task's, the task's over the image's,
// and adds those that every container has.
func environment(in Input) []string {
	var env []string
	index := map[string]int{}
	set := func(kv string, replace bool) {
		name, _, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			return // a bare name in an image would take over a variable of the runtime's own
		}
		i, known := index[name]
		switch {
		case !known:
			index[name] = len(env)
			env = append(env, kv)
		case replace:
			env[i] = kv
		}
	}
	for _, kv := range slices.Concat(in.Image.Env, in.Spec.Env) {
		set(kv, true)
	}
	set(defaultPath, false)
	set("HOSTNAME="+in.Hostname, false)
	home := in.User.Home
	if home == "" {
		home = "/"
	}
	set("HOME="+home, false)
	return env
}

func namespaces(in Input) []specs.LinuxNamespace {
	ns := []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.UTSNamespace}, {Type: specs.MountNamespace}}
	if in.Spec.IPC == runtime.IPCPrivate {
		ns = append(ns, specs.LinuxNamespace{Type: specs.IPCNamespace})
	}
	if in.Spec.Network.Mode != runtime.NetworkHost {
		ns = append(ns, specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: in.NetNS})
	}
	if in.Cgroup2 {
		ns = append(ns, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	return ns
}

// sysctls are Docker's: in a network namespace of its own a program without privileges
// may use low ports and ping.
func sysctls(in Input) map[string]string {
	if in.Spec.Network.Mode == runtime.NetworkHost {
		return nil
	}
	return map[string]string{
		"net.ipv4.ip_unprivileged_port_start": "0",
		"net.ipv4.ping_group_range":           "0 2147483647",
	}
}

// capabilities are Docker's default set.
func capabilities() *specs.LinuxCapabilities {
	set := []string{
		"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
		"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
	}
	return &specs.LinuxCapabilities{Bounding: set, Effective: slices.Clone(set), Permitted: slices.Clone(set)}
}

var maskedPaths = []string{
	"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
	"/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats",
	"/sys/devices/virtual/powercap", "/sys/firmware",
}

var readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
