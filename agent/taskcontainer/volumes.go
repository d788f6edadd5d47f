package taskcontainer

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/agent/pathfence"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

func (b Builder) volumes(asked []protocol.Volume) ([]Volume, error) {
	var volumes []Volume
	var errs []error
	for i, v := range asked {
		resolved, err := b.check(v.HostPath, v.ReadOnly)
		if err != nil {
			errs = append(errs, fmt.Errorf("volumes[%d].host_path: %w", i, err))
			continue
		}
		volumes = append(volumes, Volume{resolved, v.ContainerPath, v.ReadOnly})
	}
	return volumes, errors.Join(errs...)
}

// check asks the fence about a host path.
func (b Builder) check(hostPath string, readOnly bool) (pathfence.Resolved, error) {
	fence, access := b.Fence, pathfence.Write
	if b.RuntimeRoot != nil && b.RuntimeRoot() != "" {
		fence = fence.Denying(b.RuntimeRoot())
	}
	if readOnly {
		access = pathfence.Read
	}
	return fence.Check(hostPath, access)
}

// mounts names the volumes by the paths the fence resolved them to: these have no links
// that could be turned elsewhere. A read-only bind mount leaves what is mounted below it on
// the host writable, so each of those gets one of its own: that a kernel can do it in one go
// is new (5.12), and not each engine asks it to. Below another of the volumes it does not show.
// What is mounted there later is not the container's until it is woken, and writable then.
func mounts(volumes []Volume) ([]runtime.Mount, error) {
	var mounts []runtime.Mount
	for i, v := range volumes {
		mounts = append(mounts, runtime.Mount{Source: v.Path, Target: v.Target, ReadOnly: v.ReadOnly})
		if !v.ReadOnly || !v.Dir {
			continue
		}
		below, err := v.MountsBelow()
		if err != nil {
			return nil, fmt.Errorf("volumes[%d].host_path: %w", i, err)
		}
		for _, point := range below {
			target := path.Join(v.Target, strings.TrimPrefix(point, v.Path))
			hidden := func(other Volume) bool {
				return pathfence.Within(other.Target, v.Target) && other.Target != v.Target && pathfence.Within(target, other.Target)
			}
			if !slices.ContainsFunc(volumes, hidden) {
				mounts = append(mounts, runtime.Mount{Source: point, Target: target, ReadOnly: true})
			}
		}
	}
	return mounts, nil
}
