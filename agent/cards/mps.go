package cards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/heteroflow/node-agent/agent/lease"
	"github.com/heteroflow/node-agent/agent/preflight"
	"github.com/heteroflow/node-agent/agent/taskcontainer"
	"github.com/heteroflow/node-agent/gpu/nvidia"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// MPSDaemon is the daemon that shares NVIDIA's cards out among processes.
type MPSDaemon interface {
	// Answers returns nil when it answers now, or why it does not.
	Answers(ctx context.Context) error
}

// Ready returns nil when a container with the holds can be started: what they share must be
// served. An error is a *taskcontainer.RefusedError, or ctx's.
func (c *Cards) Ready(ctx context.Context, holds []lease.Hold) error {
	if !slices.ContainsFunc(holds, func(h lease.Hold) bool { return h.Shared }) {
		return nil
	}
	err := c.MPS.Answers(ctx)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return &taskcontainer.RefusedError{Reason: protocol.ReasonGPUUnavailable, Err: fmt.Errorf("slices: no card can be shared by MPS: %w", err)}
	}
}

var errMixed = errors.New("slices: shares of cards by MPS go together with nothing else: all that a process does with CUDA goes through the daemon")

// throughMPS makes the container a client of the host's MPS daemon, with the limits of its
// shares. They bind only a program that leaves its environment alone: MPS shares a card
// among tasks that trust each other.
func throughMPS(out *taskcontainer.Devices, chosen []choice) error {
	shares := slices.Clone(chosen)
	shares = slices.DeleteFunc(shares, func(c choice) bool { return c.share == nil })
	switch {
	case len(shares) == 0:
		return nil
	case len(shares) < len(chosen):
		return errMixed
	}
	threads, err := threadPercentage(shares)
	if err != nil {
		return err
	}
	out.HostShm = true
	out.Mounts = append(out.Mounts,
		runtime.Mount{Source: nvidia.MPSPipeDir, Target: nvidia.MPSPipeDir},
		runtime.Mount{Source: preflight.HostShm, Target: preflight.HostShm})
	out.Env = overlay(out.Env, nvidia.MPSPipeEnv+"="+nvidia.MPSPipeDir)
	out.Env = overlay(out.Env, nvidia.MPSThreadsEnv+"="+strconv.Itoa(threads))
	if limits := memoryLimits(shares); limits != "" {
		out.Env = overlay(out.Env, nvidia.MPSMemoryEnv+"="+limits)
	}
	return nil
}

// threadPercentage is one for all cards of a process.
func threadPercentage(shares []choice) (int, error) {
	percentage := func(c choice) int {
		if c.share.ThreadPercentage == nil {
			return 100
		}
		return *c.share.ThreadPercentage
	}
	for _, c := range shares[1:] {
		if a, b := percentage(shares[0]), percentage(c); a != b {
			return 0, fmt.Errorf("slices: thread_percentage is %d here and %d there: MPS has one for all cards of a process", a, b)
		}
	}
	return percentage(shares[0]), nil
}

// memoryLimits numbers the cards as CUDA does in the container, where OrderEnv has it count
// as nvidia-smi does. A limit is in whole MiB, and at least one.
func memoryLimits(shares []choice) string {
	shares = slices.SortedFunc(slices.Values(shares), func(a, b choice) int { return cmp.Compare(*a.Device.Index, *b.Device.Index) })
	var limits []string
	for ordinal, c := range shares {
		if bytes := c.share.MemoryLimitBytes; bytes != nil {
			limits = append(limits, fmt.Sprintf("%d=%dM", ordinal, max(1, *bytes>>20)))
		}
	}
	return strings.Join(limits, ",")
}
