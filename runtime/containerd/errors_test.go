package containerd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/heteroflow/node-agent/runtime"
)

func TestEachErrorOfTheDaemonOrARegistryHasAClass(t *testing.T) {
	answered := func(code int) error {
		return fmt.Errorf("fetch: %w", remoteerrors.ErrUnexpectedStatus{StatusCode: code, Status: http.StatusText(code), RequestMethod: "HEAD"})
	}
	cases := map[string]struct {
		err  error
		want error
	}{
		"not found":                           {fmt.Errorf("container x: %w", errdefs.ErrNotFound), runtime.ErrNotFound},
		"not found, straight from gRPC":       {status.Error(codes.NotFound, "no container"), runtime.ErrNotFound},
		"exists already":                      {errdefs.ErrAlreadyExists, runtime.ErrConflict},
		"in a state that forbids":             {status.Error(codes.FailedPrecondition, "task must be stopped"), runtime.ErrConflict},
		"malformed":                           {status.Error(codes.InvalidArgument, "identifier"), runtime.ErrInvalid},
		"the socket is not there":             {status.Error(codes.Unavailable, "connection error: dial unix: no such file"), runtime.ErrUnavailable},
		"no answer in time":                   {status.Error(codes.DeadlineExceeded, "context deadline exceeded"), runtime.ErrUnavailable},
		"a method this daemon has not":        {status.Error(codes.Unimplemented, "unknown method"), runtime.ErrUnavailable},
		"something went wrong":                {status.Error(codes.Unknown, "failed to extract layer"), runtime.ErrUnavailable},
		"an error nobody expected":            {errors.New("odd"), runtime.ErrUnavailable},
		"a full disk, over gRPC":              {status.Error(codes.Unknown, "write /var/lib/x: no space left on device"), runtime.ErrNoSpace},
		"a full quota":                        {errors.New("mkdir x: disk quota exceeded"), runtime.ErrNoSpace},
		"a class of ours stays":               {fmt.Errorf("%w: mount source", runtime.ErrInvalid), runtime.ErrInvalid},
		"the registry wants credentials":      {answered(401), runtime.ErrUnauthorized},
		"the registry refuses these":          {answered(403), runtime.ErrUnauthorized},
		"no credentials at all":               {fmt.Errorf("pull access denied: %w", docker.ErrInvalidAuthorization), runtime.ErrUnauthorized},
		"the registry has no such thing":      {answered(404), runtime.ErrNotFound},
		"the registry is broken":              {answered(502), runtime.ErrRegistryUnavailable},
		"the registry is not reached":         {&url.Error{Op: "Head", URL: "https://x", Err: errors.New("connection refused")}, runtime.ErrRegistryUnavailable},
		"the registry throttles":              {fmt.Errorf("do: %w", &url.Error{Err: &runtime.ThrottledError{RetryAfter: time.Minute}}), runtime.ErrThrottled},
		"content that is not its digest's":    {pullError(status.Error(codes.FailedPrecondition, "unexpected commit digest"), true), runtime.ErrRegistryUnavailable},
		"layers that are none":                {pullError(status.Error(codes.Unknown, "failed to extract layer sha256:00: unexpected EOF"), true), runtime.ErrRegistryUnavailable},
		"layers that do not fit":              {pullError(status.Error(codes.Unknown, "failed to extract layer sha256:00: no space left on device"), true), runtime.ErrNoSpace},
		"a daemon that dies while it unpacks": {pullError(status.Error(codes.Unavailable, "error reading from server: EOF"), true), runtime.ErrUnavailable},
		"a part that is missing":              {pullError(status.Error(codes.NotFound, "lease does not exist"), true), runtime.ErrRegistryUnavailable},
		"an image that is missing":            {pullError(status.Error(codes.NotFound, "no such manifest"), false), runtime.ErrNotFound},
		"an image for other machines":         {pullError(fmt.Errorf("no match for platform in manifest: %w", errdefs.ErrNotFound), true), runtime.ErrNotFound},
		"several of which one has a class":    {errors.Join(errors.New("odd"), runtime.ErrStartFailed), runtime.ErrStartFailed},
		"a daemon's end of our own bound":     {fmt.Errorf("rpc: %w", context.DeadlineExceeded), runtime.ErrUnavailable},
		"a task that ended while signalled":   {fmt.Errorf("process already finished: %w", errdefs.ErrNotFound), runtime.ErrNotFound},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := translate(t.Context(), "do it", tc.err)
			if !errors.Is(got, tc.want) || !strings.HasPrefix(got.Error(), "do it: ") {
				t.Errorf("got %v, want %v", got, tc.want)
			}
			if !errors.Is(tc.want, runtime.ErrUnavailable) && errors.Is(got, runtime.ErrUnavailable) {
				t.Errorf("%v blames the daemon as well", got)
			}
		})
	}
	if err := translate(t.Context(), "do it", nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestAnErrorAfterTheCallersEndIsThatEnd(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := translate(cancelled, "do it", status.Error(codes.Unavailable, "x")); !errors.Is(err, context.Canceled) || errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("cancelled: got %v", err)
	}
	// The daemon's clock may be the first to see the deadline.
	soon, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
	defer cancel()
	if err := translate(soon, "do it", status.Error(codes.DeadlineExceeded, "x")); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("deadline: got %v", err)
	}
}

func TestContainerIDsAreNamesWhereContainerdCanTakeThem(t *testing.T) {
	cases := map[string]bool{
		"task-1": true, "A.b_c-d": true, strings.Repeat("a", 76): true,
		strings.Repeat("a", 77): false, "a--b": false, "a-": false, "a_.b": false, strings.Repeat("ab", 64): false,
	}
	seen := map[string]string{}
	for name, kept := range cases {
		id := containerID(name)
		if !validID(id) || (id == name) != kept {
			t.Errorf("%s: got id %s", name, id)
		}
		if other, ok := seen[id]; ok {
			t.Errorf("%s and %s have the same id", name, other)
		}
		seen[id] = name
		if containerID(id) != id {
			t.Errorf("the id of %s is not its own id", id)
		}
	}
}

func TestLabelsThatContainerdCannotKeepComeBackWhole(t *testing.T) {
	all := map[string]string{
		"small": "x", "empty": "", "large": strings.Repeat("x", 30<<10),
		"edge": strings.Repeat("x", labelBytes-4), "over": strings.Repeat("x", labelBytes-3), strings.Repeat("k", 5000): "v",
	}
	small, large := splitLabels(all)
	if len(small) != 2 || len(large) != 4 || len(small["edge"]) == 0 {
		t.Errorf("got %d that containerd keeps and %d that it cannot", len(small), len(large))
	}
}
