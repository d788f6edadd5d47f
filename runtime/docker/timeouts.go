package docker

import (
	"cmp"
	"time"

	"github.com/heteroflow/node-agent/runtime"
)

// How long the daemon may take. They are generous, as each is a time after which
// something is broken: what a user waits for is bounded by the caller's context.
const (
	// Two round trips; runtime.Runtime promises an answer within 10 s.
	probeTimeout = 8 * time.Second
	// Inspections and lists take milliseconds, but dockerd holds a container's lock
	// while it starts, and reading the images waits for the disk.
	queryTimeout = 30 * time.Second
	// Reads and, for what was rotated, decompresses all of a container's log at worst.
	logsTimeout = time.Minute
	// Copies what the image has at its volumes' paths, which may be gigabytes.
	createTimeout = 2 * time.Minute
	// Mounts, network, and the GPU hooks: without persistence mode a driver takes
	// seconds to wake up each card.
	startTimeout = 2 * time.Minute
	// After the grace period the daemon sends SIGKILL and answers. A third of
	// StopMargin, so that time is left to do it in the daemon's stead.
	stopReplyTimeout = runtime.StopMargin / 3
	// Deletes the container's writable layer, file by file.
	removeTimeout = time.Minute
)

// Timeouts bound single calls to the daemon. A field that is zero takes its default.
type Timeouts struct {
	Probe      time.Duration
	Query      time.Duration // inspect, list, images, kill
	Logs       time.Duration
	Create     time.Duration
	Start      time.Duration
	StopReply  time.Duration // for the daemon's answer to a stop, after the grace
	StopMargin time.Duration // for the container's end, after the grace
	Remove     time.Duration
}

func (t Timeouts) withDefaults() Timeouts {
	return Timeouts{
		Probe:      cmp.Or(t.Probe, probeTimeout),
		Query:      cmp.Or(t.Query, queryTimeout),
		Logs:       cmp.Or(t.Logs, logsTimeout),
		Create:     cmp.Or(t.Create, createTimeout),
		Start:      cmp.Or(t.Start, startTimeout),
		StopReply:  cmp.Or(t.StopReply, stopReplyTimeout),
		StopMargin: cmp.Or(t.StopMargin, runtime.StopMargin),
		Remove:     cmp.Or(t.Remove, removeTimeout),
	}
}

// retryDelays are the pauses between tries where the daemon is still busy with another
// call on the same container or a process still uses its file system: together about
// six seconds, in which a create of another's, or a removal, is over on a busy disk too.
var retryDelays = []time.Duration{
	100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond,
	3200 * time.Millisecond,
}
