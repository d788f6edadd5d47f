// Package oom reads from the metrics that containerd's shims report how many processes
// of a container the kernel killed for want of memory. The count is the cgroup's own,
// for cgroup v1 and v2, so neither a plain SIGKILL nor a killed child process is
// mistaken for what it is not. It starts no goroutines.
package oom

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/heteroflow/node-agent/runtime/containerd/wire"
)

// counts say where the count is, by the message's type: containerd/cgroups,
// cgroup1/stats/metrics.proto and cgroup2/stats/metrics.proto.
var counts = map[string]struct{ memory, kills protowire.Number }{
	"io.containerd.cgroups.v1.Metrics": {memory: 9, kills: 3}, // memory_oom_control, oom_kill
	"io.containerd.cgroups.v2.Metrics": {memory: 8, kills: 5}, // memory_events, oom_kill
}

// Kills returns the count from metrics of the type that the URL names. An error says that
// the metrics do not tell.
func Kills(typeURL string, metrics []byte) (uint64, error) {
	count, ok := counts[typeURL[strings.LastIndexByte(typeURL, '/')+1:]]
	if !ok {
		return 0, fmt.Errorf("metrics of type %q have no count of OOM kills", typeURL)
	}
	memory, err := wire.Message(metrics).Message(count.memory)
	if err != nil {
		return 0, fmt.Errorf("decode metrics: %w", err)
	}
	if memory == nil {
		return 0, fmt.Errorf("metrics lack those of memory: its cgroup controller is off")
	}
	kills, err := memory.Varint(count.kills)
	if err != nil {
		return 0, fmt.Errorf("decode metrics of memory: %w", err)
	}
	return kills, nil
}
