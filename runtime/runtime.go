package runtime

import (
	"context"
	"time"
)

// Runtime drives one container daemon. All methods are safe for concurrent use,
// honour ctx and are bounded in time by the implementation besides, save Wait, Pull
// and CanPull, which last as long as ctx does. Errors match one of the Err classes of this
// package with errors.Is, or ctx's error when ctx ended first; ErrUnavailable always
// means the daemon, never the container.
//
// An id is the one Create or List returned; Inspect takes a name as well. Anything
// else, an empty one above all, is ErrInvalid and never reaches the daemon.
type Runtime interface {
	// Name tells which daemon this is, for reports and logs.
	Name() Name

	// Probe asks the daemon who it is. It answers within 10 s even when the daemon
	// accepts connections and says nothing.
	Probe(ctx context.Context) (Info, error)

	// Image looks for a local image by the exact reference given: same registry,
	// repository, and tag or digest. ErrNotFound if there is none.
	Image(ctx context.Context, ref string) (Image, error)

	// Images lists the local images, in a number of calls that does not grow with them.
	Images(ctx context.Context) ([]Image, error)

	// Pull fetches an image whether or not it is present. Credentials are used for
	// this call alone and are not kept.
	// ErrNotFound, ErrUnauthorized, ErrThrottled, ErrRegistryUnavailable,
	// ErrNoSpace or ErrUnavailable.
	Pull(ctx context.Context, req PullRequest) (Image, error)

	// CanPull asks the image's registry whether a pull with these credentials, nil for an
	// anonymous one, would be let in. It fetches no layer and is no word about the local
	// image. Errors are those of Pull.
	CanPull(ctx context.Context, ref string, auth *RegistryAuth) error

	// Create ensures a stopped container of this spec exists and returns it. A
	// container of that name with the same spec hash is returned as it is, in
	// whatever state; one with another hash is ErrConflict and is left alone.
	Create(ctx context.Context, spec Spec) (Container, error)

	// Start ensures the container has been started. When the daemon's reply is lost
	// the container is inspected before an error is returned. ErrStartFailed when the
	// program could not be executed: the container stays, never having run.
	Start(ctx context.Context, id string) error

	// Wait blocks until the container has stopped and returns how it ended, at once
	// if it already has. A container that never started is ErrConflict. An error
	// says nothing about the container: inspect it.
	Wait(ctx context.Context, id string) (Exit, error)

	// Stop sends the stop signal and, after grace, SIGKILL, and returns once the
	// container is not running; it is kept. ErrStopTimeout when it is still running
	// StopMargin after grace, for instance with a process in uninterruptible sleep.
	Stop(ctx context.Context, id string, grace time.Duration) error

	// Inspect returns everything known of one container, by id or name.
	Inspect(ctx context.Context, id string) (Container, error)

	// List returns all containers, in any state, that carry every one of the labels,
	// in a number of calls that does not grow with them. Only ID, Name, Image, Labels,
	// State and CreatedAt are filled in.
	List(ctx context.Context, labels map[string]string) ([]Container, error)

	// Logs returns the end of the container's output, stdout and stderr in the order
	// they were written, without any framing.
	Logs(ctx context.Context, id string, opts LogOptions) ([]byte, error)

	// Remove kills the container if it runs and removes it with its anonymous
	// volumes. A container that is not there is no error.
	Remove(ctx context.Context, id string) error

	// Close lets go of the connection. Containers are not touched.
	Close() error
}

// Gated is a Runtime that has a container ready, its file systems mounted, before its
// program runs. Docker does both in one step.
type Gated interface {
	Runtime

	// StartIf is Start, and asks ready just before the program runs, with the process that
	// waits to become it. If that returns an error the program does not run and the error
	// is returned, with ErrStartFailed: the container stays, without this run.
	StartIf(ctx context.Context, id string, ready func(pid int) error) error
}

// StopMargin is how long after its grace a container may still be dying before Stop
// gives up: the kernel frees a GPU process's pinned memory before it reaps it, which
// takes seconds on a large card.
const StopMargin = 15 * time.Second

// Name is the name of a runtime as configured and reported.
type Name string

// The runtimes there are.
const (
	Docker     Name = "docker"
	Containerd Name = "containerd"
)

// Info is what a daemon says of itself.
type Info struct {
	Version       string // the daemon's own version, "20.10.24+dfsg1"
	APIVersion    string // negotiated API version, empty where there is no such thing
	RootDir       string // where the daemon keeps its data
	ImageDir      string // where images take their disk space, packed and unpacked; empty: not known
	CgroupVersion int    // 1 or 2
	CDI           bool   // Spec.CDIDevices can be given
	// CDIDirs are where CDI specs are looked for, by the daemon or by the client for it.
	CDIDirs []string
}

// LogOptions selects the part of the output Logs returns.
type LogOptions struct {
	TailBytes int64     // at most this many bytes from the end; must be positive
	Since     time.Time // output written at or after this time; zero: all there is
}
