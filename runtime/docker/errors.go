package docker

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/runtime"
)

// scope says which calls a row of the table is for.
type scope int

const (
	anyCall scope = iota
	pulling       // only while a registry is involved
)

// reason is one row of the table: an error that is of the type, or says the text, has
// the class.
type reason struct {
	text  string // a part of the daemon's message, in lower case
	is    error  // or an error that errors.Is finds
	class error
	in    scope
}

// reasons is read from the top, and the first row that fits decides. Texts come first:
// Docker up to 24 answers a plain 500 to most of what a registry refuses, and 404 to a
// registry that hides what it denies. Texts hold a blank or a colon at their end, so
// that no image reference can be taken for one.
var reasons = []reason{
	{text: "no space left on device", class: runtime.ErrNoSpace},
	{text: "disk quota exceeded", class: runtime.ErrNoSpace},

	// The daemon and this client have no API version in common.
	{text: "is too old. minimum supported api version is", class: runtime.ErrUnavailable},
	{text: "is too new. maximum supported api version is", class: runtime.ErrUnavailable},
	{text: "the minimum supported api version is", class: runtime.ErrUnavailable},

	// A removal that failed half-way, and may succeed once a mount has gone.
	{text: "device or resource busy", class: runtime.ErrConflict},

	// What the daemon finds out at the start: a name no CDI spec has, a daemon without CDI,
	// a device node that is not there.
	{text: "cdi device injection failed: ", class: runtime.ErrDeviceUnavailable},
	{text: "could not select device driver ", class: runtime.ErrDeviceUnavailable},
	{text: "error gathering device information while adding custom device ", class: runtime.ErrDeviceUnavailable},

	{text: "toomanyrequests: ", class: runtime.ErrThrottled, in: pulling},
	{text: "429 too many requests", class: runtime.ErrThrottled, in: pulling},
	{text: "parsing http 429 response", class: runtime.ErrThrottled, in: pulling},

	{text: "no basic auth credentials", class: runtime.ErrUnauthorized, in: pulling},
	{text: "unauthorized: ", class: runtime.ErrUnauthorized, in: pulling},
	{text: ": unauthorized", class: runtime.ErrUnauthorized, in: pulling},
	{text: "401 unauthorized", class: runtime.ErrUnauthorized, in: pulling},
	{text: "403 forbidden", class: runtime.ErrUnauthorized, in: pulling},
	{text: "parsing http 401 response", class: runtime.ErrUnauthorized, in: pulling},
	{text: "parsing http 403 response", class: runtime.ErrUnauthorized, in: pulling},
	{text: "pull access denied for ", class: runtime.ErrUnauthorized, in: pulling},
	{text: "denied: ", class: runtime.ErrUnauthorized, in: pulling},

	{text: ": manifest unknown", class: runtime.ErrNotFound, in: pulling},
	{text: ": name unknown", class: runtime.ErrNotFound, in: pulling},
	{text: "no matching manifest for ", class: runtime.ErrNotFound, in: pulling},

	{text: "dial unix", class: runtime.ErrUnavailable, in: pulling}, // the daemon's own containerd is away
	{text: "dial tcp", class: runtime.ErrRegistryUnavailable, in: pulling},
	{text: "connection reset by peer", class: runtime.ErrRegistryUnavailable, in: pulling},
	{text: "i/o timeout", class: runtime.ErrRegistryUnavailable, in: pulling},
	{text: "tls handshake timeout", class: runtime.ErrRegistryUnavailable, in: pulling},
	{text: "while awaiting headers", class: runtime.ErrRegistryUnavailable, in: pulling},
	{text: "server gave http response to https client", class: runtime.ErrRegistryUnavailable, in: pulling},
	{text: "x509: ", class: runtime.ErrRegistryUnavailable, in: pulling},
	{text: "unexpected eof", class: runtime.ErrRegistryUnavailable, in: pulling},
	{text: ": eof", class: runtime.ErrRegistryUnavailable, in: pulling},
	{text: "unexpected http status: 5", class: runtime.ErrRegistryUnavailable, in: pulling},
	{text: "parsing http 5", class: runtime.ErrRegistryUnavailable, in: pulling},
	{text: "invalid character '<'", class: runtime.ErrRegistryUnavailable, in: pulling}, // a web page

	{is: cerrdefs.ErrNotFound, class: runtime.ErrNotFound},
	{is: cerrdefs.ErrConflict, class: runtime.ErrConflict},
	{is: cerrdefs.ErrInvalidArgument, class: runtime.ErrInvalid},
	{is: cerrdefs.ErrNotImplemented, class: runtime.ErrInvalid},
	{is: cerrdefs.ErrUnauthenticated, class: runtime.ErrUnauthorized, in: pulling},
	{is: cerrdefs.ErrPermissionDenied, class: runtime.ErrUnauthorized, in: pulling},
	{is: cerrdefs.ErrResourceExhausted, class: runtime.ErrThrottled, in: pulling},
	{is: cerrdefs.ErrUnavailable, class: runtime.ErrUnavailable, in: pulling},
}

// classes are all that a call's own code may have decided already.
var classes = []error{
	runtime.ErrNotFound, runtime.ErrConflict, runtime.ErrInvalid, runtime.ErrUnavailable,
	runtime.ErrUnauthorized, runtime.ErrRegistryUnavailable, runtime.ErrDeviceUnavailable, runtime.ErrThrottled, runtime.ErrNoSpace,
}

// classify wraps err in the class it belongs to, unless it has one. What the table does
// not know is the daemon's trouble, an answer cut short or an internal error of its own:
// ErrUnavailable. Of a pull, what the daemon has answered is the registry's trouble, or the
// image's: it is there, and a pull that it cannot do is not one to ask for without end.
func classify(err error, in scope) error {
	if slices.ContainsFunc(classes, func(class error) bool { return errors.Is(err, class) }) {
		return err
	}
	class := runtime.ErrUnavailable
	if r, ok := findReason(err, in); ok {
		class = r.class
	} else if in == pulling && isAnswer(err) {
		class = runtime.ErrRegistryUnavailable
	}
	if errors.Is(class, runtime.ErrThrottled) {
		return &runtime.ThrottledError{RetryAfter: retryAfter(err.Error()), Err: err}
	}
	return fmt.Errorf("%w: %w", class, err)
}

func findReason(err error, in scope) (reason, bool) {
	if client.IsErrConnectionFailed(err) {
		return reason{}, false // texts about connections would be about this one
	}
	message := strings.ToLower(err.Error())
	for _, r := range reasons {
		fits := r.is != nil && errors.Is(err, r.is) || r.text != "" && strings.Contains(message, r.text)
		if fits && (r.in == anyCall || r.in == in) {
			return r, true
		}
	}
	return reason{}, false
}

// isAnswer tells what the daemon said, at once or at the end of a pull, from what went wrong
// on the way to it.
func isAnswer(err error) bool {
	_, said := errors.AsType[*jsonstream.Error](err)
	return said || strings.HasPrefix(err.Error(), "Error response from daemon: ")
}

var retryAfterPattern = regexp.MustCompile(`(?i)retry-after: *([0-9.]+(?:ns|us|µs|ms|s|m|h))`)

// retryAfter finds how long a registry wants to be left alone. The daemon drops the
// Retry-After header, so only a registry that repeats it in its message is understood.
func retryAfter(message string) time.Duration {
	match := retryAfterPattern.FindStringSubmatch(message)
	if match == nil {
		return 0
	}
	wait, err := time.ParseDuration(match[1])
	if err != nil {
		return 0 // such as "1.2.3s": not understood is not said
	}
	return wait
}
