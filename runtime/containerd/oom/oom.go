// Package oom reads from the metrics that containerd's shims report how many processes
// of a container the kernel killed for want of memory. The count is the cgroup's own,
// for cgroup v1 and v2, so neither a plain SIGKILL nor a killed child process is
// mistaken for what it is not. It starts no goroutines.
package oom

import (
	"fmt"

	cgroup1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	cgroup2 "github.com/containerd/cgroups/v3/cgroup2/stats"
	"github.com/containerd/typeurl/v2"
)

// Kills returns the count. An error says that the metrics do not tell.
func Kills(metrics typeurl.Any) (uint64, error) {
	if metrics == nil {
		return 0, fmt.Errorf("no metrics")
	}
	v, err := typeurl.UnmarshalAny(metrics)
	if err != nil {
		return 0, fmt.Errorf("decode metrics: %w", err)
	}
	switch m := v.(type) {
	case *cgroup1.Metrics:
		if m.MemoryOomControl != nil {
			return m.MemoryOomControl.OomKill, nil
		}
	case *cgroup2.Metrics:
		if m.MemoryEvents != nil {
			return m.MemoryEvents.OomKill, nil
		}
	}
	return 0, fmt.Errorf("metrics of type %s have no count of OOM kills", metrics.GetTypeUrl())
}
