package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/heteroflow/node-agent/agent/wallclock"
	"github.com/heteroflow/node-agent/protocol"
)

// The classes of answers that are not a success. Every *Error matches exactly one.
var (
	// ErrUnauthorized: the key was refused. Repeating the call is no use.
	ErrUnauthorized = errors.New("the control plane refused the system key")
	// ErrForbidden: outside this node's scope.
	ErrForbidden = errors.New("outside the node's scope")
	// ErrNotFound: the control plane itself said that this does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict: a compare-and-set was lost.
	ErrConflict = errors.New("compare-and-set lost")
	// ErrRefused: another 4xx; the same request will be refused again.
	ErrRefused = errors.New("request refused")
	// ErrRetryable: 408, 429, 5xx, no answer, or an answer that is not the protocol's.
	// Whether the request was applied is not known.
	ErrRetryable = errors.New("control plane unavailable")
)

// maxRetryAfter caps what a server may ask for.
const maxRetryAfter = time.Minute

// Error is an answer that was not a success, or none at all. It never holds the key.
type Error struct {
	Op         string // what was being done
	Status     int    // HTTP status; 0: no answer
	Code       string // the control plane's word for it
	Message    string
	Task       *protocol.Task // with ErrConflict: the task as it is stored, if the server said
	RetryAfter time.Duration  // at most a minute; 0: the server did not say

	class error
	cause error
}

// Error says what was being done and what came of it.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	b.WriteString(": ")
	if e.Status != 0 {
		fmt.Fprintf(&b, "status %d: ", e.Status)
	}
	if e.Code != "" {
		b.WriteString(e.Code + ": ")
	}
	b.WriteString(e.Message)
	if e.cause != nil {
		fmt.Fprintf(&b, ": %v", e.cause)
	}
	return b.String()
}

// Unwrap gives the class and the cause.
func (e *Error) Unwrap() []error { return []error{e.class, e.cause} }

func classOf(status int) error {
	switch {
	case status == http.StatusUnauthorized:
		return ErrUnauthorized
	case status == http.StatusForbidden:
		return ErrForbidden
	case status == http.StatusNotFound:
		return ErrNotFound
	case status == http.StatusConflict:
		return ErrConflict
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests:
		return ErrRetryable
	case status >= 400 && status < 500:
		return ErrRefused
	default:
		return ErrRetryable
	}
}

// RetryAfter is how long the server asked to wait, if err says so.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.RetryAfter
	}
	return 0
}

// Pause is how long a periodic loop waits after its failures-th failure in a row: its
// period, or what the server asked for if that is longer. A refused key doubles the
// pause up to a minute: it heals only when somebody corrects it.
func Pause(err error, failures int, period time.Duration) time.Duration {
	if errors.Is(err, ErrUnauthorized) {
		return max(period, min(maxRetryAfter, period<<min(failures-1, 16)))
	}
	return max(period, RetryAfter(err))
}

func retryAfter(resp *http.Response) time.Duration {
	header := resp.Header.Get("Retry-After")
	var wait time.Duration
	if seconds, err := strconv.ParseInt(header, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(dateOf(resp))
	}
	return max(0, min(wait, maxRetryAfter))
}

// dateOf is when the server answered, by its own clock if it says: this node's may differ.
func dateOf(resp *http.Response) time.Time {
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		return at
	}
	return wallclock.Now()
}

// unwrapURLError drops net/http's own prefix, which repeats method and URL.
func unwrapURLError(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}
