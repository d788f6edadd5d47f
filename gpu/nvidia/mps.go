package nvidia

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/nvidia/mps"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// What a container needs to be a client of the host's MPS control daemon: its pipes at the
// path that the variable names, and the shared memory in which it and the servers meet.
// Sources: docs.nvidia.com/deploy/mps, and the MPS support of NVIDIA/k8s-device-plugin.
const (
	// MPSPipeDir is where the daemon's pipes are unless it was told otherwise.
	MPSPipeDir = "/tmp/nvidia-mps"
	MPSPipeEnv = "CUDA_MPS_PIPE_DIRECTORY"
	// MPSThreadsEnv is a client's share of a card's threads in percent, of all its cards.
	MPSThreadsEnv = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
	// MPSMemoryEnv limits a client's memory for each of its cards, which it counts from 0:
	// "0=10G,1=4096M".
	MPSMemoryEnv = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
)

// MPS is the MPS control daemon of a host.
type MPS struct {
	Run  tool.Runner
	Root string // where the host's root file system is; empty: it is this process's own
}

// Answers returns nil when the daemon answers now. Whatever keeps it from that, MPS cannot
// be promised: CUDA programs run without it and without its limits, and nobody tells.
func (m MPS) Answers(ctx context.Context) error {
	if info, err := os.Stat(filepath.Join("/", m.Root, MPSPipeDir)); err != nil || !info.IsDir() {
		return errors.Join(fmt.Errorf("the MPS control daemon has no pipe directory %s: is it running, with CUDA_MPS_PIPE_DIRECTORY unset?", MPSPipeDir), err)
	}
	return m.asked(ctx)
}

func (m MPS) asked(ctx context.Context) error {
	p, err := gpu.Ask(ctx, m.Run, Parse, tool.Command{Name: mps.Tool, Input: mps.Probe + "\n"})
	switch {
	case err != nil:
		return fmt.Errorf("ask the MPS control daemon: %w", err)
	case p.MPS != nil && p.MPS.ThreadPercent != nil:
		return nil
	case p.MPS != nil && p.MPS.Daemon != nil && !*p.MPS.Daemon:
		return errors.New("there is no MPS control daemon: start one with nvidia-cuda-mps-control -d")
	case p.CollectorError != nil:
		return fmt.Errorf("ask the MPS control daemon: %s", p.CollectorError.Message)
	default:
		return errors.New("the MPS control daemon does not answer its default thread percentage")
	}
}
