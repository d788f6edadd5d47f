package preflight

import (
	"fmt"

	"github.com/heteroflow/node-agent/protocol"
)

// HostShm is the host's own shared memory.
const HostShm = "/dev/shm"

// Docker's default of 64 MiB is known to kill an engine without a word even on one card;
// on several, NCCL alone asks for more, and 1 GiB is the least that an engine's documents
// ask for (vllm-ascend, text-generation-inference).
const (
	leastOnOneCard = 128 * mib
	leastOnSeveral = gib
)

// Shm is the shared memory a task's container is to get.
type Shm struct {
	IPC protocol.IPCMode
	// Bytes is the size of a /dev/shm of its own; 0: the runtime's default, or the host's.
	Bytes int64
	// HostBytes must be free in the host's /dev/shm, which the container uses; 0: it uses
	// none of it, or nobody knows how much.
	HostBytes int64

	what string // that needs HostBytes
}

// ShmFor decides it. What the task itself says stands; where it says nothing, an engine
// gets what its own documents say, and work that trains or uses several cards gets room
// for the processes that takes. hostShm: the container gets the host's /dev/shm in any
// case. It depends on the task alone, so that a second decision is the same.
func ShmFor(t protocol.Task, hostShm bool) Shm {
	var e *engine
	if t.Type == protocol.TaskInference || t.Engine != "" {
		e = engineOf(t)
	}
	s := Shm{IPC: t.IPC, Bytes: t.ShmSizeBytes}
	silent := t.IPC == "" && t.ShmSizeBytes == 0
	switch {
	case hostShm:
		s.Bytes = 0
	case silent && e != nil && e.hostIPC:
		s.IPC = protocol.IPCHost
	case s.IPC != protocol.IPCHost && s.Bytes == 0:
		s.Bytes = own(t, e)
	}
	if s.IPC == "" {
		s.IPC = protocol.IPCPrivate
	}
	if e != nil && (hostShm || s.IPC == protocol.IPCHost) {
		s.HostBytes = leastOnOneCard
		if n := cardsOf(t); n > 1 {
			s.HostBytes = leastOnSeveral
		}
		s.what = fmt.Sprintf("%s on %d card(s)", e.names[0], cardsOf(t))
	}
	return s
}

// own is the size of a /dev/shm that nobody has named; 0: the runtime's default does.
// It counts as the container's memory, so it is no larger than the limit of that.
func own(t protocol.Task, e *engine) int64 {
	var bytes int64
	switch {
	case e != nil:
		bytes = e.bytes
	case t.Type == protocol.TaskTraining && cardsOf(t) > 0, t.Type == protocol.TaskInference && cardsOf(t) > 1:
		bytes = backendBytes
	}
	if t.MemoryBytes > 0 {
		bytes = min(bytes, t.MemoryBytes)
	}
	return bytes
}

// cardsOf counts the cards and parts of cards that a task's processes share out.
func cardsOf(t protocol.Task) int { return len(t.Devices) + len(t.Slices) }

// Promised is what of the host's shared memory is promised to tasks that run or are being
// launched.
type Promised struct {
	Bytes int64 // to all of them together
	Free  int64 // what was free before the first of them took any
}

// Left is the part of it that they have not taken yet, with so much free now. Nobody tells
// who takes what: what has become less since counts as theirs, as it mostly is.
func (p Promised) Left(free Space) int64 { return max(0, p.Bytes-max(0, p.Free-free.Bytes)) }

// ShmError says that the host has too little shared memory.
type ShmError struct {
	What       string // that needs it
	Need, Free int64  // bytes
	Promised   int64  // of the free ones, to other tasks
}

// Error gives the numbers and the ways out.
func (e *ShmError) Error() string {
	promised := ""
	if e.Promised > 0 {
		promised = fmt.Sprintf(", %s (%d bytes) of these for tasks that were launched before and have not taken them yet", size(e.Promised), e.Promised)
	}
	return fmt.Sprintf("%s needs %s of the host's %s (%d bytes), of which %s (%d bytes) are free%s: "+
		"remove what is left there, remount it larger, or have the task say ipc private and shm_size_bytes",
		e.What, size(e.Need), HostShm, e.Need, size(e.Free), e.Free, promised)
}

// Check refuses, with a *ShmError, what the host's /dev/shm cannot hold beside what is
// promised to others.
func (s Shm) Check(free Space, others Promised) error {
	left := others.Left(free)
	if free.Bytes-left >= s.HostBytes {
		return nil
	}
	return &ShmError{What: s.what, Need: s.HostBytes, Free: free.Bytes, Promised: left}
}
