package ocispec

import (
	"math"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/heteroflow/node-agent/runtime/ulimit"
)

func rlimits(l ulimit.Limits) []specs.POSIXRlimit {
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
