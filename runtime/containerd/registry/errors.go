package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"

	"github.com/heteroflow/node-agent/runtime"
)

// maxRetryAfter bounds what a registry can make a caller wait.
const maxRetryAfter = 24 * time.Hour

// transport marks what goes wrong on the way to a registry, to tell it from what goes
// wrong on the way to the daemon, and keeps what containerd's client drops: how long a
// registry wants to be left alone.
type transport struct{ base http.RoundTripper }

// unreachable is an error on the way to a registry.
type unreachable struct{ err error }

func (e unreachable) Error() string { return e.err.Error() }
func (e unreachable) Unwrap() error { return e.err }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && r.Header.Get("Range") != "" {
		// A registry that cannot serve a layer from the middle: containerd skips what
		// it has, and would otherwise ask for the same range for ever.
		whole := r.Clone(r.Context())
		whole.Header.Del("Range")
		if err := resp.Body.Close(); err != nil {
			return nil, unreachable{err}
		}
		resp, err = t.base.RoundTrip(whole)
	}
	if err != nil {
		return nil, unreachable{err}
	}
	if resp.StatusCode == http.StatusTooManyRequests {
		// As an answer it would be asked again at once, five times over.
		return nil, errors.Join(&runtime.ThrottledError{
			RetryAfter: retryAfter(resp.Header.Get("Retry-After"), dateOf(resp)),
			Err:        fmt.Errorf("%s answers %s", r.URL.Host, resp.Status),
		}, resp.Body.Close())
	}
	return resp, nil
}

// retryAfter reads seconds or a date; what it cannot read is not said.
func retryAfter(header string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseInt(header, 10, 32); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(header); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// dateOf is when the registry answered, by its own clock if it says: this host's may differ.
func dateOf(resp *http.Response) time.Time {
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		return at
	}
	return time.Now()
}

// Class returns the class of an error that a registry is the cause of, nil if it is not.
func Class(err error) error {
	if throttled, ok := errors.AsType[*runtime.ThrottledError](err); ok {
		return throttled
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	if errors.Is(err, docker.ErrInvalidAuthorization) {
		return runtime.ErrUnauthorized
	}
	if status, ok := errors.AsType[remoteerrors.ErrUnexpectedStatus](err); ok {
		switch status.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return runtime.ErrUnauthorized
		case http.StatusNotFound:
			return runtime.ErrNotFound
		default:
			return runtime.ErrRegistryUnavailable
		}
	}
	if errors.Is(err, errNotAManifest) {
		return runtime.ErrRegistryUnavailable
	}
	if _, ok := errors.AsType[unreachable](err); ok {
		return runtime.ErrRegistryUnavailable
	}
	if _, ok := errors.AsType[*url.Error](err); ok {
		return runtime.ErrRegistryUnavailable
	}
	return nil
}
