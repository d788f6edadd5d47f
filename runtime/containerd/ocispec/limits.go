package ocispec

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Limits are the process limits a container gets: hard and soft alike.
type Limits struct {
	OpenFiles    uint64
	LockedMemory uint64 // bytes; math.MaxUint64 is unlimited
}

// GPU frameworks pin host memory for transfers and map many files; both run out under
// the usual limits of 64 KiB to 8 MiB and 1024.
var wanted = Limits{OpenFiles: 1 << 20, LockedMemory: math.MaxUint64}

// LimitsOf returns what GPU work wants, within what the daemon may give: it can raise
// nothing above its own hard limits without CAP_SYS_RESOURCE, and a spec that asks for
// more fails at start.
func LimitsOf(daemonPID int) (Limits, error) {
	privileged, err := hasSysResource(daemonPID)
	if err != nil || privileged {
		return wanted, err
	}
	got := wanted
	for _, l := range []struct {
		resource int
		value    *uint64
	}{{unix.RLIMIT_NOFILE, &got.OpenFiles}, {unix.RLIMIT_MEMLOCK, &got.LockedMemory}} {
		var r unix.Rlimit
		if err := unix.Prlimit(daemonPID, l.resource, nil, &r); err != nil {
			return wanted, fmt.Errorf("read limits of process %d: %w", daemonPID, err)
		}
		*l.value = min(*l.value, r.Max)
	}
	return got, nil
}

func hasSysResource(pid int) (bool, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return false, err
	}
	for line := range bytes.Lines(status) {
		if value, ok := bytes.CutPrefix(line, []byte("CapEff:")); ok {
			set, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 16, 64)
			return set&(1<<unix.CAP_SYS_RESOURCE) != 0, err
		}
	}
	return false, fmt.Errorf("process %d: no CapEff in its status", pid)
}

func (l Limits) rlimits() []specs.POSIXRlimit {
	return []specs.POSIXRlimit{
		{Type: "RLIMIT_NOFILE", Hard: l.OpenFiles, Soft: l.OpenFiles},
		{Type: "RLIMIT_MEMLOCK", Hard: l.LockedMemory, Soft: l.LockedMemory},
	}
}

// cpuPeriod is the kernel's default scheduling period in microseconds.
const cpuPeriod = 100_000

func resources(in Input) *specs.LinuxResources {
	r := &specs.LinuxResources{
		// The runtime adds the default devices to this; cards are added by who grants them.
		Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
	}
	asked := in.Spec.Resources
	if asked.CPUs > 0 {
		// The kernel's smallest quota is 1 ms.
		quota := max(int64(math.Round(asked.CPUs*cpuPeriod)), 1000)
		r.CPU = &specs.LinuxCPU{Quota: &quota, Period: new(uint64(cpuPeriod))}
	}
	if asked.MemoryBytes > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &asked.MemoryBytes}
		if in.LimitSwap {
			r.Memory.Swap = &asked.MemoryBytes // memory and swap together: no swap
		}
	}
	if asked.PidsLimit > 0 {
		r.Pids = &specs.LinuxPids{Limit: &asked.PidsLimit}
	}
	return r
}
