package executor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// expectAgain looks anew at what the container is to get, as it is about to be started.
func (t *task) expectAgain() error {
	if t.record.Expect == nil {
		return nil
	}
	now, err := t.e.Builder.Recheck(*t.record.Expect)
	if err != nil {
		return err
	}
	t.record.Expect = &now // stored with the start that follows
	return nil
}

// verify looks from outside at what a run of the container got, once each run, whoever
// started it: an agent that dies after a start leaves that to the next. A container with
// other volumes than passed the fence gets the verdict by which it is killed. It reports
// whether there is one.
func (t *task) verify(ctx context.Context, rt runtime.Runtime, c runtime.Container) (condemned bool, err error) {
	if t.record.Expect == nil || c.PID == 0 || t.looked.Equal(c.StartedAt) || t.record.Verified != nil && t.record.Verified.Equal(c.StartedAt) {
		return false, nil
	}
	changed, mismatch := t.record.Expect.VerifyVolumes(c.PID), t.verifyDevices(c.PID, t.record.Expect.Nodes)
	if changed != nil || mismatch != nil {
		// It may have ended while it was looked into.
		if now, err := t.inspect(ctx, rt); err != nil || now.PID != c.PID || changed != nil && over(c.PID) {
			return false, gone(err)
		}
	}
	t.looked = c.StartedAt
	if mismatch != nil {
		t.reportDevices(mismatch) // and not noted as verified: a later agent is to report it too
	}
	switch {
	case changed != nil:
		t.log.Error("the container got other volumes than it was given; it is killed", logging.ContainerID(c.ID), zap.Error(changed))
		t.remember(func(r *Record) { r.Verdict, r.Why = protocol.ReasonVolumeDenied, changed.Error() })
		return true, nil //nolint:nilerr // the verdict holds it
	case mismatch == nil:
		t.remember(func(r *Record) { r.Verified = &c.StartedAt })
	}
	return false, nil
}

// over tells whether a process has ended, which the runtime may hear of later: the kernel
// takes its root directory from it before it takes its mounts apart.
func over(pid int) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/root", pid))
	return errors.Is(err, fs.ErrNotExist)
}

// gone takes a container that is not there any more for no error: the next look finds out.
func gone(err error) error {
	if errors.Is(err, runtime.ErrNotFound) {
		return nil
	}
	return err
}
