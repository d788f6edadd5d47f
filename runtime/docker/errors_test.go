package docker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/jsonstream"

	"github.com/heteroflow/node-agent/runtime"
)

// status is an answer of the daemon, of an HTTP status that moby's client turns into
// the errdefs class.
func status(class error, message string) error {
	return fmt.Errorf("Error response from daemon: %s%w", message, silent{class})
}

// silent is an error that is found and not seen.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

// Messages as Docker 20.10.24 gives them, unless another release is named.
var pullErrors = map[string]struct {
	err  error
	want error
}{
	"no credentials":        {status(cerrdefs.ErrInternal, "Head \"http://127.0.0.1:5000/v2/a/manifests/v1\": no basic auth credentials"), runtime.ErrUnauthorized},
	"wrong credentials":     {status(cerrdefs.ErrInternal, "Head \"http://127.0.0.1:5000/v2/a/manifests/v1\": unauthorized: authentication required"), runtime.ErrUnauthorized},
	"empty credentials":     {status(cerrdefs.ErrInternal, "unauthorized"), runtime.ErrUnauthorized},
	"denied by a token":     {status(cerrdefs.ErrInternal, "Get \"https://r.example/v2/\": denied: requested access to the resource is denied"), runtime.ErrUnauthorized},
	"hidden by docker.io":   {status(cerrdefs.ErrNotFound, "pull access denied for x/y, repository does not exist or may require 'docker login': denied: requested access to the resource is denied"), runtime.ErrUnauthorized},
	"bare 401":              {status(cerrdefs.ErrInternal, "received unexpected HTTP status: 401 Unauthorized"), runtime.ErrUnauthorized},
	"bare 403":              {status(cerrdefs.ErrInternal, "error parsing HTTP 403 response body: unexpected end of JSON input: 403 Forbidden"), runtime.ErrUnauthorized},
	"bare 403, empty":       {status(cerrdefs.ErrInternal, "error parsing HTTP 403 response body: unexpected end of JSON input: \"\""), runtime.ErrUnauthorized},
	"bare 401, empty":       {status(cerrdefs.ErrInternal, "error parsing HTTP 401 response body: unexpected end of JSON input: \"\""), runtime.ErrUnauthorized},
	"bare 418, empty":       {status(cerrdefs.ErrInternal, "error parsing HTTP 418 response body: unexpected end of JSON input: \"\""), runtime.ErrRegistryUnavailable},
	"typed 401":             {status(cerrdefs.ErrUnauthenticated, "access refused"), runtime.ErrUnauthorized},
	"typed 403":             {status(cerrdefs.ErrPermissionDenied, "access refused"), runtime.ErrUnauthorized},
	"no such tag":           {status(cerrdefs.ErrNotFound, "manifest for 127.0.0.1:5000/a:v1 not found: manifest unknown"), runtime.ErrNotFound},
	"no such repository":    {status(cerrdefs.ErrInternal, "Get x: name unknown: Unknown name"), runtime.ErrNotFound},
	"manifest, untyped":     {status(cerrdefs.ErrInternal, "Get x: manifest unknown: Unknown manifest"), runtime.ErrNotFound},
	"another architecture":  {status(cerrdefs.ErrNotFound, "no matching manifest for linux/arm64 in the manifest list entries"), runtime.ErrNotFound},
	"a misleading name":     {status(cerrdefs.ErrNotFound, "manifest for 127.0.0.1:5000/unauthorized/toomanyrequests:denied not found: manifest unknown"), runtime.ErrNotFound},
	"throttled":             {status(cerrdefs.ErrInternal, "toomanyrequests: You have reached your pull rate limit"), runtime.ErrThrottled},
	"throttled, bare":       {status(cerrdefs.ErrInternal, "received unexpected HTTP status: 429 Too Many Requests"), runtime.ErrThrottled},
	"throttled, web page":   {status(cerrdefs.ErrInternal, "error parsing HTTP 429 response body: invalid character '<' looking for beginning of value"), runtime.ErrThrottled},
	"throttled, typed":      {status(cerrdefs.ErrResourceExhausted, "slow down"), runtime.ErrThrottled},
	"refused":               {status(cerrdefs.ErrInternal, "Get \"http://127.0.0.1:1/v2/\": dial tcp 127.0.0.1:1: connect: connection refused"), runtime.ErrRegistryUnavailable},
	"unknown host":          {status(cerrdefs.ErrInternal, "Get \"https://r.example/v2/\": dial tcp: lookup r.example on 10.0.0.2:53: no such host"), runtime.ErrRegistryUnavailable},
	"reset":                 {status(cerrdefs.ErrInternal, "read tcp 10.0.0.1:4->10.0.0.2:443: read: connection reset by peer"), runtime.ErrRegistryUnavailable},
	"read timeout":          {status(cerrdefs.ErrInternal, "read tcp 10.0.0.1:4->10.0.0.2:443: i/o timeout"), runtime.ErrRegistryUnavailable},
	"slow TLS":              {status(cerrdefs.ErrInternal, "Get \"https://r.example/v2/\": net/http: TLS handshake timeout"), runtime.ErrRegistryUnavailable},
	"no headers":            {status(cerrdefs.ErrInternal, "Get \"https://r.example/v2/\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"), runtime.ErrRegistryUnavailable},
	"plain http":            {status(cerrdefs.ErrInternal, "Get \"https://r.example/v2/\": http: server gave HTTP response to HTTPS client"), runtime.ErrRegistryUnavailable},
	"unknown authority":     {status(cerrdefs.ErrInternal, "Get \"https://r.example/v2/\": x509: certificate signed by unknown authority"), runtime.ErrRegistryUnavailable},
	"cut short":             {errors.New("unexpected EOF"), runtime.ErrRegistryUnavailable},
	"closed":                {status(cerrdefs.ErrInternal, "Get \"https://r.example/v2/\": EOF"), runtime.ErrRegistryUnavailable},
	"bare 503":              {status(cerrdefs.ErrInternal, "received unexpected HTTP status: 503 Service Unavailable"), runtime.ErrRegistryUnavailable},
	"502 with a web page":   {status(cerrdefs.ErrInternal, "error parsing HTTP 502 response body: no JSON"), runtime.ErrRegistryUnavailable},
	"a web page":            {status(cerrdefs.ErrInternal, "error unmarshalling content: invalid character '<' looking for beginning of value"), runtime.ErrRegistryUnavailable},
	"disk full":             {errors.New("write /var/lib/docker/tmp/GetImageBlob1: no space left on device"), runtime.ErrNoSpace},
	"quota":                 {errors.New("failed to register layer: disk quota exceeded"), runtime.ErrNoSpace},
	"a spoilt layer":        {&jsonstream.Error{Message: "filesystem layer verification failed for digest sha256:00"}, runtime.ErrRegistryUnavailable},
	"something new":         {status(cerrdefs.ErrInternal, "a message of the future"), runtime.ErrRegistryUnavailable},
	"something new, late":   {&jsonstream.Error{Message: "a message of the future"}, runtime.ErrRegistryUnavailable},
	"no answer at all":      {errors.New("a failure of the future, on the way to the daemon"), runtime.ErrUnavailable},
	"no containerd":         {status(cerrdefs.ErrInternal, "connection error: desc = \"transport: Error while dialing: dial unix /run/containerd/containerd.sock: connect: connection refused\""), runtime.ErrUnavailable},
	"daemon overloaded":     {status(cerrdefs.ErrUnavailable, "try again"), runtime.ErrUnavailable},
	"decided by the caller": {fmt.Errorf("%w: unauthorized: x", runtime.ErrNotFound), runtime.ErrNotFound},
}

var otherErrors = map[string]struct {
	err  error
	want error
}{
	"no such container":        {status(cerrdefs.ErrNotFound, "No such container: x"), runtime.ErrNotFound},
	"name in use":              {status(cerrdefs.ErrConflict, "Conflict. The container name \"/x\" is already in use"), runtime.ErrConflict},
	"bad parameter":            {status(cerrdefs.ErrInvalidArgument, "invalid mount config for type \"bind\": bind source path does not exist: /x"), runtime.ErrInvalid},
	"log driver without read":  {status(cerrdefs.ErrNotImplemented, "configured logging driver does not support reading"), runtime.ErrInvalid},
	"unknown CDI device":       {status(cerrdefs.ErrInternal, "CDI device injection failed: unresolvable CDI devices lab.example/gpu=7"), runtime.ErrDeviceUnavailable},
	"no CDI in the daemon":     {status(cerrdefs.ErrInternal, "could not select device driver \"cdi\" with capabilities: []"), runtime.ErrDeviceUnavailable},
	"missing device node":      {status(cerrdefs.ErrInternal, "error gathering device information while adding custom device \"/dev/x\": no such file or directory"), runtime.ErrDeviceUnavailable},
	"busy":                     {status(cerrdefs.ErrInternal, "unlinkat /x/merged: device or resource busy"), runtime.ErrConflict},
	"client too old":           {status(cerrdefs.ErrInvalidArgument, "client version 1.41 is too old. Minimum supported API version is 1.44, please upgrade your client to a newer version"), runtime.ErrUnavailable},
	"client too new":           {status(cerrdefs.ErrInvalidArgument, "client version 1.56 is too new. Maximum supported API version is 1.39"), runtime.ErrUnavailable},
	"daemon too old":           {cerrdefs.ErrInvalidArgument.WithMessage("API version 1.39 is not supported by this client: the minimum supported API version is 1.40"), runtime.ErrUnavailable},
	"internal":                 {status(cerrdefs.ErrInternal, "layer does not exist"), runtime.ErrUnavailable},
	"denied by the kernel":     {status(cerrdefs.ErrInternal, "open /x: permission denied: unknown"), runtime.ErrUnavailable},
	"a program's words":        {status(cerrdefs.ErrInternal, "hook: unauthorized: toomanyrequests: dial tcp: x509: no"), runtime.ErrUnavailable},
	"disk full":                {status(cerrdefs.ErrInternal, "mkdir /var/lib/docker/overlay2/x: no space left on device"), runtime.ErrNoSpace},
	"authorisation plugin":     {status(cerrdefs.ErrPermissionDenied, "authorization denied by plugin x: no"), runtime.ErrUnavailable},
	"the answer was cut short": {errors.New("unexpected EOF"), runtime.ErrUnavailable},
}

func TestEveryKnownErrorHasItsClass(t *testing.T) {
	for name, tc := range pullErrors {
		checkClass(t, "pull: "+name, classify(tc.err, pulling), tc.want, tc.err)
	}
	for name, tc := range otherErrors {
		checkClass(t, name, classify(tc.err, anyCall), tc.want, tc.err)
	}
}

func checkClass(t *testing.T, name string, got, want, cause error) {
	t.Helper()
	if !errors.Is(got, cause) {
		t.Errorf("%s: the cause is lost in %v", name, got)
	}
	for _, class := range classes {
		if errors.Is(got, class) != errors.Is(class, want) {
			t.Errorf("%s: got %v, want class %q alone", name, got, want)
		}
	}
}

func TestEveryRowOfTheTableDecidesACase(t *testing.T) {
	decided := map[reason]bool{}
	note := func(err error, in scope) {
		if r, ok := findReason(err, in); ok {
			decided[r] = true
		}
	}
	for _, tc := range pullErrors {
		note(tc.err, pulling)
	}
	for _, tc := range otherErrors {
		note(tc.err, anyCall)
	}
	for _, r := range reasons {
		if !decided[r] {
			t.Errorf("no case for the row %+v", r)
		}
	}
}

func TestRetryAfterIsReadFromTheRegistrysMessage(t *testing.T) {
	for message, want := range map[string]time.Duration{
		"toomanyrequests: rate exceeded":                          0,
		"toomanyrequests: retry-after: 1.5s, allowed: 44000/min":  1500 * time.Millisecond,
		"toomanyrequests: Retry-After: 238.181µs, allowed: 44000": 238181 * time.Nanosecond,
		"toomanyrequests: retry-after: 1.2.3s":                    0,
		"toomanyrequests: retry-after: soon":                      0,
	} {
		throttled, ok := errors.AsType[*runtime.ThrottledError](classify(errors.New(message), pulling))
		if !ok || throttled.RetryAfter != want {
			t.Errorf("%s: got %+v, want %v", message, throttled, want)
		}
	}
}
