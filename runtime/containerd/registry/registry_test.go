package registry

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/log"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	digest   = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	username = "user"
	password = "secret-word"
)

// host is a registry that has one empty manifest and remembers who asked.
type host struct {
	*httptest.Server
	wantsAuth   bool
	contentType string
	status      int
	header      http.Header

	mu    sync.Mutex
	users []string
}

func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, _, _ := r.BasicAuth()
	h.mu.Lock()
	h.users = append(h.users, user)
	h.mu.Unlock()
	if h.wantsAuth && user == "" {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	maps.Copy(w.Header(), h.header)
	if h.status != 0 {
		w.WriteHeader(h.status)
		return
	}
	w.Header().Set("Content-Type", h.contentType)
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Length", "0")
}

func (h *host) seen() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.users
}

func (h *host) address() string { return h.Listener.Addr().String() }

func newHost(t *testing.T, tls bool) *host {
	h := &host{contentType: ocispec.MediaTypeImageManifest, header: http.Header{}}
	if tls {
		h.Server = httptest.NewTLSServer(h)
	} else {
		h.Server = httptest.NewServer(h)
	}
	t.Cleanup(h.Close)
	return h
}

// hostsFile configures a registry as containerd's certs.d does.
func hostsFile(t *testing.T, dir, registry, content string) {
	t.Helper()
	dir = filepath.Join(dir, registry)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hosts.toml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func resolve(t *testing.T, dir, ref string, auth *runtime.RegistryAuth) error {
	t.Helper()
	named, err := runtime.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	silent := logrus.New()
	silent.SetOutput(io.Discard)
	ctx := log.WithLogger(t.Context(), logrus.NewEntry(silent))
	s := NewSession(ctx, dir, named, auth, nil)
	defer s.Close()
	_, _, err = s.Resolver().Resolve(ctx, named.String())
	return err
}

func TestARegistryWithAPrivateCAIsTrustedAsItsHostsFileSays(t *testing.T) {
	h := newHost(t, true)
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := resolve(t, t.TempDir(), "reg.example/app:v1", nil); !errors.Is(Class(err), runtime.ErrRegistryUnavailable) {
		t.Errorf("unknown to the hosts directory: %v", err)
	}
	hostsFile(t, dir, "reg.example", fmt.Sprintf("server = %q\nca = %q\n", h.URL, ca))
	if err := resolve(t, dir, "reg.example/app:v1", nil); err != nil {
		t.Errorf("with its CA: %v", err)
	}
	hostsFile(t, dir, "untrusted.example", fmt.Sprintf("server = %q\n", h.URL))
	if err := resolve(t, dir, "untrusted.example/app:v1", nil); !errors.Is(Class(err), runtime.ErrRegistryUnavailable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without its CA: %v", err)
	}
}

func TestCredentialsGoToTheRegistryAndNeverToItsMirror(t *testing.T) {
	mirror, origin := newHost(t, false), newHost(t, false)
	mirror.wantsAuth, origin.wantsAuth = true, true
	dir := t.TempDir()
	hostsFile(t, dir, strings.ReplaceAll(origin.address(), ":", "_")+"_", fmt.Sprintf(
		"server = %q\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", origin.URL, mirror.URL))
	auth := &runtime.RegistryAuth{Username: username, Password: password}
	if err := resolve(t, dir, origin.address()+"/app:v1", auth); err != nil {
		t.Fatal(err)
	}
	if users := mirror.seen(); len(users) == 0 || strings.Join(users, "") != "" {
		t.Errorf("the mirror has seen %q, want it asked, and anonymously", users)
	}
	if users := origin.seen(); users[len(users)-1] != username {
		t.Errorf("the registry has seen %q", users)
	}
}

func TestTheCredentialsOfARegistryAreForItsOwnHostOnly(t *testing.T) {
	auth := &runtime.RegistryAuth{Username: username, Password: password}
	token := &runtime.RegistryAuth{IdentityToken: "token"}
	cases := []struct {
		domain, host       string
		auth               *runtime.RegistryAuth
		wantUser, wantWord string
	}{
		{"reg.example:5000", "reg.example:5000", auth, username, password},
		{"REG.example", "reg.example", auth, username, password},
		{"reg.example", "reg.example:443", auth, "", ""},
		{"reg.example", "evil.example", auth, "", ""},
		{"docker.io", "registry-1.docker.io", auth, username, password},
		{"docker.io", "docker.io", auth, "", ""},
		{"reg.example", "reg.example", token, "", "token"},
	}
	for _, tc := range cases {
		user, word, err := credentials(tc.domain, tc.auth)(tc.host)
		if user != tc.wantUser || word != tc.wantWord || err != nil {
			t.Errorf("%s asked by %s: got %q, %q, %v", tc.domain, tc.host, user, word, err)
		}
	}
	if credentials("reg.example", nil) != nil {
		t.Error("no credentials became some")
	}
}

func TestTheAnswersOfARegistryHaveTheirClass(t *testing.T) {
	cases := map[string]struct {
		spoil func(*host)
		want  error
		retry time.Duration
	}{
		"wants credentials":         {func(h *host) { h.wantsAuth = true }, runtime.ErrUnauthorized, 0},
		"forbids":                   {func(h *host) { h.status = 403 }, runtime.ErrUnauthorized, 0},
		"is broken":                 {func(h *host) { h.status = 500 }, runtime.ErrRegistryUnavailable, 0},
		"throttles":                 {func(h *host) { h.status = 429 }, runtime.ErrThrottled, 0},
		"throttles for a while":     {func(h *host) { h.status = 429; h.header.Set("Retry-After", "20") }, runtime.ErrThrottled, 20 * time.Second},
		"answers with a login page": {func(h *host) { h.contentType = "text/html; charset=utf-8" }, runtime.ErrRegistryUnavailable, 0},
		"has gone":                  {func(h *host) { h.Close() }, runtime.ErrRegistryUnavailable, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, false)
			address := h.address()
			tc.spoil(h)
			err := resolve(t, t.TempDir(), address+"/app:v1", nil)
			if !errors.Is(Class(err), tc.want) {
				t.Fatalf("got %v (class %v), want %v", err, Class(err), tc.want)
			}
			if throttled, ok := errors.AsType[*runtime.ThrottledError](err); ok {
				if throttled.RetryAfter != tc.retry {
					t.Errorf("retry after %v, want %v", throttled.RetryAfter, tc.retry)
				}
				if n := len(h.seen()); n != 1 {
					t.Errorf("it was asked %d times, though it asked for patience", n)
				}
			}
		})
	}
	if class := Class(context.Canceled); class != nil {
		t.Errorf("the caller's own end has class %v", class)
	}
}

func TestRetryAfterIsReadAsSecondsOrDateAndBounded(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	cases := map[string]time.Duration{
		"": 0, "20": 20 * time.Second, "-5": 0, "soon": 0, "1.5": 0, "99999999999999999999": 0, "2147483647": maxRetryAfter,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	}
	for header, want := range cases {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q: got %v, want %v", header, got, want)
		}
	}
}

func TestARetryAfterDateIsByTheClockOfTheRegistryThatSaysIt(t *testing.T) {
	for _, ahead := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		h := newHost(t, false)
		now := time.Now().Add(ahead).UTC()
		h.status = http.StatusTooManyRequests
		h.header.Set("Date", now.Format(http.TimeFormat))
		h.header.Set("Retry-After", now.Add(20*time.Second).Format(http.TimeFormat))
		err := resolve(t, t.TempDir(), h.address()+"/app:v1", nil)
		if throttled, ok := errors.AsType[*runtime.ThrottledError](err); !ok || throttled.RetryAfter != 20*time.Second {
			t.Errorf("with a clock that is %v ahead: %v", ahead, err)
		}
	}
}

func TestARegistryThatRefusesRangesIsAskedForTheWhole(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "" {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		_, _ = io.WriteString(w, "whole")
	}))
	defer server.Close()
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Range", "bytes=3-")
	resp, err := transport{base}.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || string(body) != "whole" {
		t.Errorf("got %s %q, %v", resp.Status, body, err)
	}
}
