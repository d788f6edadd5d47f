package containerd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc/status"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/runtime/containerd/registry"
)

// classes are tried in order. What matches none is the daemon's fault: it answered
// something nobody expected, and the state of the container is not known.
var classes = []struct {
	matches func(error) bool
	class   error
}{
	{isNoSpace, runtime.ErrNoSpace},
	{errdefs.IsNotFound, runtime.ErrNotFound},
	{errdefs.IsAlreadyExists, runtime.ErrConflict},
	{errdefs.IsFailedPrecondition, runtime.ErrConflict},
	{errdefs.IsInvalidArgument, runtime.ErrInvalid},
	{errdefs.IsOutOfRange, runtime.ErrInvalid},
}

// translate puts an error of the daemon or of a registry into its class. ctx is the
// caller's: when it has ended, that is what happened.
func translate(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	if ended := endOf(ctx); ended != nil {
		return fmt.Errorf("%s: %w", what, ended)
	}
	if isClassified(err) {
		return fmt.Errorf("%s: %w", what, err)
	}
	if class := registry.Class(err); class != nil {
		return fmt.Errorf("%s: %w: %w", what, class, err)
	}
	err = native(err)
	for _, c := range classes {
		if c.matches(err) {
			return fmt.Errorf("%s: %w: %w", what, c.class, err)
		}
	}
	return fmt.Errorf("%s: %w: %w", what, runtime.ErrUnavailable, err)
}

// endOf is why a context has ended. The daemon is told of its deadline with each call and
// can be the first of the two to see it pass.
func endOf(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < 50*time.Millisecond {
		return context.DeadlineExceeded
	}
	return nil
}

// native gives the daemon's own error classes to an error straight from gRPC.
func native(err error) error {
	if _, ok := status.FromError(err); ok {
		return errgrpc.ToNative(err)
	}
	return err
}

func isClassified(err error) bool {
	for _, class := range []error{
		runtime.ErrNotFound, runtime.ErrConflict, runtime.ErrInvalid, runtime.ErrUnavailable, runtime.ErrStartFailed,
		runtime.ErrStopTimeout, runtime.ErrUnauthorized, runtime.ErrRegistryUnavailable, runtime.ErrThrottled, runtime.ErrNoSpace,
		runtime.ErrDeviceUnavailable,
	} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// isNoSpace matches the kernel's words, since over gRPC the daemon has no others.
func isNoSpace(err error) bool {
	text := err.Error()
	return strings.Contains(text, "no space left on device") || strings.Contains(text, "disk quota exceeded")
}
