package taskcontainer

import (
	"errors"
	"fmt"

	"github.com/heteroflow/node-agent/agent/pathfence"
	"github.com/heteroflow/node-agent/protocol"
)

// Expectation is what a container must turn out to have once it runs. It can be kept, so
// that a later agent can look, too.
type Expectation struct {
	Volumes []Volume `json:"volumes,omitempty"`
	Nodes   []Node   `json:"nodes,omitempty"` // beside those that every container has
}

// Volume is a host path that passed the fence, and where it is mounted.
type Volume struct {
	pathfence.Resolved

	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// VerifyVolumes checks that the container whose first process is pid got the very volumes
// that passed the fence: a path can be swapped between the check and the daemon's mount. The
// error matches pathfence.ErrChanged.
func (e Expectation) VerifyVolumes(pid int) error {
	for _, v := range e.Volumes {
		if err := v.VerifyIn(fmt.Sprintf("/proc/%d/root", pid), v.Target); err != nil {
			return fmt.Errorf("the volume at %s is not %s: %w", v.Target, v.Path, err)
		}
	}
	return nil
}

// Recheck asks the fence again about the volumes of a container that is about to be
// started, perhaps days after it was made: the daemon mounts what is at their paths by
// then. The error is a *RefusedError.
func (b Builder) Recheck(e Expectation) (Expectation, error) {
	now := Expectation{Nodes: e.Nodes}
	var errs []error
	for _, v := range e.Volumes {
		resolved, err := b.check(v.Path, v.ReadOnly)
		if err == nil && resolved.Path != v.Path {
			err = fmt.Errorf("%w: %s leads to %s now", pathfence.ErrChanged, v.Path, resolved.Path)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("volume at %s: %w", v.Target, err))
			continue
		}
		now.Volumes = append(now.Volumes, Volume{resolved, v.Target, v.ReadOnly})
	}
	if len(errs) > 0 {
		return Expectation{}, refuse(protocol.ReasonVolumeDenied, errors.Join(errs...))
	}
	return now, nil
}
