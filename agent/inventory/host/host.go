// Package host reads what a heartbeat says of the machine: its name and make, how busy its
// processors are, its memory, its disks and the address by which the control plane sees it.
// A value that cannot be read is left out.
package host

import (
	"context"
	"net"
	"net/netip"
	"runtime"
	"sync"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/heteroflow/node-agent/agent/preflight"
	"github.com/heteroflow/node-agent/protocol"
)

// Host reads one machine. It is safe for concurrent use.
type Host struct {
	static protocol.Host // what does not change while the agent runs
	disks  disks

	mu     sync.Mutex
	before cpu.TimesStat // at the last reading; CPU usage is what happened since
	primed bool
}

// New reads what does not change.
func New(ctx context.Context) *Host {
	h := &Host{static: protocol.Host{Arch: runtime.GOARCH}}
	if info, err := host.InfoWithContext(ctx); err == nil {
		h.static.Hostname = info.Hostname
		h.static.OS = join(info.Platform, info.PlatformVersion)
		h.static.Kernel = info.KernelVersion
	}
	if n, err := cpu.CountsWithContext(ctx, true); err == nil && n > 0 {
		h.static.CPUCores = &n
	}
	h.usage(ctx)
	return h
}

func join(name, version string) string {
	if name == "" || version == "" {
		return name + version
	}
	return name + " " + version
}

// Read returns the machine as it is now, with the file systems of the given directories
// and the address local, which may be invalid.
func (h *Host) Read(ctx context.Context, local netip.Addr, dirs []string) protocol.Host {
	now := h.static
	now.CPUUsagePercent = h.usage(ctx)
	if avg, err := load.AvgWithContext(ctx); err == nil {
		now.Load1 = &avg.Load1
	}
	if vm, err := mem.VirtualMemoryWithContext(ctx); err == nil && vm.Total > 0 {
		now.MemoryTotalBytes = new(int64(vm.Total))
		now.MemoryUsedBytes = new(int64(vm.Total) - int64(vm.Available))
	}
	now.Disks = h.disks.read(ctx, dirs)
	if local.IsValid() {
		now.InternalIP = local.String()
		now.MACAddress = macOf(local)
	}
	return now
}

// Free is what is free on the file system that holds dir; false: that cannot be found out
// now.
func (h *Host) Free(ctx context.Context, dir string) (preflight.Space, bool) {
	return h.disks.free(ctx, dir)
}

// usage is the share of the processors' time since the last call that was not idle; nil
// for the first call and after a clock that stood still.
func (h *Host) usage(ctx context.Context) *float64 {
	times, err := cpu.TimesWithContext(ctx, false)
	if err != nil || len(times) == 0 {
		return nil
	}
	now := times[0]
	h.mu.Lock()
	defer h.mu.Unlock()
	before, primed := h.before, h.primed
	h.before, h.primed = now, true
	return usage(before, now, primed)
}

func usage(before, now cpu.TimesStat, primed bool) *float64 {
	total, idle := total(now)-total(before), now.Idle+now.Iowait-before.Idle-before.Iowait
	if !primed || total <= 0 {
		return nil
	}
	return new(min(100, max(0, 100*(total-idle)/total)))
}

// total is all processor time. Guest time is part of user time already (proc_stat(5)).
func total(t cpu.TimesStat) float64 {
	return t.User + t.Nice + t.System + t.Idle + t.Iowait + t.Irq + t.Softirq + t.Steal
}

func macOf(local netip.Addr) string {
	interfaces, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, i := range interfaces {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().Unmap() == local.Unmap() {
				return i.HardwareAddr.String()
			}
		}
	}
	return ""
}
