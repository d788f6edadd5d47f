package runtime

import (
	"errors"
	"fmt"
	"time"
)

// The classes of errors a Runtime returns. Implementations wrap the daemon's own error
// beside the class, so that errors.Is finds the class and the message the cause.
var (
	// ErrNotFound: there is no such container or image.
	ErrNotFound = errors.New("not found")
	// ErrConflict: it exists, but is another one or in a state that forbids this.
	ErrConflict = errors.New("conflict")
	// ErrInvalid: the request can never succeed as it is.
	ErrInvalid = errors.New("invalid request")
	// ErrUnavailable: the daemon cannot be reached or gave no answer in time. What was
	// asked may or may not have been done.
	ErrUnavailable = errors.New("container runtime unavailable")
	// ErrStartFailed: the program could not be executed.
	ErrStartFailed = errors.New("container could not be started")
	// ErrDeviceUnavailable: a device of the spec cannot be given to the container.
	ErrDeviceUnavailable = errors.New("device unavailable")
	// ErrStopTimeout: the container is still running after SIGKILL.
	ErrStopTimeout = errors.New("container does not stop")
	// ErrUnauthorized: the registry refuses these credentials, or wants some.
	ErrUnauthorized = errors.New("registry denied access")
	// ErrRegistryUnavailable: the registry cannot be reached or is broken.
	ErrRegistryUnavailable = errors.New("registry unavailable")
	// ErrThrottled: the registry asks for fewer requests; see ThrottledError.
	ErrThrottled = errors.New("registry throttles requests")
	// ErrNoSpace: the disk is full.
	ErrNoSpace = errors.New("no space left on device")
)

// ThrottledError carries how long a registry asked to wait. It matches ErrThrottled.
type ThrottledError struct {
	RetryAfter time.Duration // 0: the registry did not say
	Err        error
}

// Error says what happened and for how long to wait.
func (e *ThrottledError) Error() string {
	if e.RetryAfter > 0 {
		return fmt.Sprintf("%v (retry after %v): %v", ErrThrottled, e.RetryAfter, e.Err)
	}
	return fmt.Sprintf("%v: %v", ErrThrottled, e.Err)
}

// Unwrap gives the registry's own error.
func (e *ThrottledError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrThrottled) true.
func (e *ThrottledError) Is(target error) bool { return target == ErrThrottled }
