package registry_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/test/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a registry that holds one image, and a client for it.
type running struct {
	*registry.Registry
	image  v1.Image
	ref    string
	client *http.Client
}

func start(t *testing.T, o registry.Options) running {
	t.Helper()
	r, err := registry.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	image, err := random.Image(4096, 2)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := r.Push(image, "team/app:v1")
	if err != nil {
		t.Fatal(err)
	}
	return running{r, image, ref, &http.Client{Transport: transport}}
}

// pull reads the whole image as a runtime would.
func (r running) pull(t *testing.T, auth authn.Authenticator) error {
	t.Helper()
	ref, err := name.ParseReference(r.ref)
	if err != nil {
		t.Fatal(err)
	}
	image, err := remote.Image(ref, remote.WithContext(t.Context()), remote.WithAuth(auth), remote.WithTransport(r.client.Transport))
	if err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		blob, err := layer.Compressed()
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, blob) // verifies the digest
		blob.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (r running) get(t *testing.T, path string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Addr()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	return answer
}

func (r running) layerPath(t *testing.T) string {
	t.Helper()
	layers, err := r.image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	return "/v2/team/app/blobs/" + digest.String()
}

const manifestPath = "/v2/team/app/manifests/v1"

func TestPullNeedsTheCredentialsAskedFor(t *testing.T) {
	alice := &authn.Basic{Username: "alice", Password: "right"}
	tests := []struct {
		name    string
		options registry.Options
		auth    authn.Authenticator
		fails   string
		users   []string
	}{
		{"an open registry serves everyone", registry.Options{}, authn.Anonymous, "", nil},
		{"basic credentials", registry.Options{Username: "alice", Password: "right"}, alice, "", []string{"alice"}},
		{"a wrong password", registry.Options{Username: "alice", Password: "other"}, alice, "UNAUTHORIZED", []string{"alice"}},
		{"no credentials", registry.Options{Username: "alice", Password: "right"}, authn.Anonymous, "UNAUTHORIZED", nil},
		{"a token for credentials", registry.Options{Username: "alice", Password: "right", Token: true}, alice, "", []string{"alice"}},
		{"no token for a wrong password", registry.Options{Username: "alice", Password: "other", Token: true}, alice, "UNAUTHORIZED", []string{"alice"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := start(t, tt.options)
			err := r.pull(t, tt.auth)
			if tt.fails == "" && err != nil {
				t.Errorf("pull: %v", err)
			}
			if tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
				t.Errorf("pull: %v, want %q in it", err, tt.fails)
			}
			if diff := cmp.Diff(tt.users, r.Users()); diff != "" {
				t.Errorf("users (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestsAreCountedByPath(t *testing.T) {
	r := start(t, registry.Options{})
	if got := r.Requests(); len(got) != 0 {
		t.Fatalf("the push was counted: %v", got)
	}
	for range 3 {
		r.get(t, manifestPath)
	}
	if diff := cmp.Diff(map[string]int{"GET " + manifestPath: 3}, r.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestThrottleAnswersTheFirstRequests(t *testing.T) {
	r := start(t, registry.Options{})
	r.Throttle(registry.Manifests, 2, 20*time.Second)
	for i, want := range []int{429, 429, 200} {
		answer := r.get(t, manifestPath)
		if answer.StatusCode != want {
			t.Errorf("request %d: status %d, want %d", i+1, answer.StatusCode, want)
		}
		if after := answer.Header.Get("Retry-After"); want == 429 && after != "20" {
			t.Errorf("request %d: Retry-After %q, want 20", i+1, after)
		}
	}
}

func TestFaultsLeaveOtherRequestsAlone(t *testing.T) {
	r := start(t, registry.Options{})
	r.Throttle(registry.Manifests, 100, 0)
	if answer := r.get(t, r.layerPath(t)); answer.StatusCode != http.StatusOK {
		t.Errorf("blob: status %d", answer.StatusCode)
	}
	r.Heal()
	if answer := r.get(t, manifestPath); answer.StatusCode != http.StatusOK {
		t.Errorf("manifest after Heal: status %d", answer.StatusCode)
	}
}

func TestStalledBlobGoesOnWhenReleased(t *testing.T) {
	r := start(t, registry.Options{})
	stall := r.Stall(registry.Blobs, 1000)
	body := r.get(t, r.layerPath(t)).Body
	first := make([]byte, 1000)
	if _, err := io.ReadFull(body, first); err != nil {
		t.Fatal(err)
	}
	<-stall.Reached()
	stall.Release()
	stall.Release() // is harmless
	rest, err := io.ReadAll(body)
	if err != nil || len(rest) == 0 {
		t.Errorf("read %d bytes more, %v", len(rest), err)
	}
	if err := r.pull(t, authn.Anonymous); err != nil {
		t.Errorf("pull after the release: %v", err)
	}
}

func TestCloseEndsAStall(t *testing.T) {
	r, err := registry.Start(registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(4096, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Push(image, "team/app:v1"); err != nil {
		t.Fatal(err)
	}
	client := running{r, image, "", &http.Client{Transport: &http.Transport{}}}
	stall := r.Stall(registry.Blobs, 1)
	body := client.get(t, client.layerPath(t)).Body
	<-stall.Reached()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(body); err == nil {
		t.Error("the held answer ended well")
	}
}

func TestAnswerHTMLComesBeforeAuthentication(t *testing.T) {
	r := start(t, registry.Options{Username: "alice", Password: "right"})
	r.AnswerHTML(registry.Any, 1)
	answer := r.get(t, "/v2/")
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("status %d, type %q", answer.StatusCode, answer.Header.Get("Content-Type"))
	}
	if answer := r.get(t, "/v2/"); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("second request: status %d, want 401", answer.StatusCode)
	}
}

func TestAnswerTypeChangesTheContentTypeOnly(t *testing.T) {
	r := start(t, registry.Options{})
	r.AnswerType(registry.Manifests, "text/plain")
	answer := r.get(t, manifestPath)
	if got := answer.Header.Get("Content-Type"); got != "text/plain" {
		t.Errorf("Content-Type = %q", got)
	}
	want, err := r.image.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(answer.Body)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("body differs from the manifest (%v)", err)
	}
}

func TestExpiredTokenCostsOneMoreToken(t *testing.T) {
	r := start(t, registry.Options{Username: "alice", Password: "right", Token: true})
	r.ExpireAt(registry.Blobs, 2)
	if err := r.pull(t, &authn.Basic{Username: "alice", Password: "right"}); err != nil {
		t.Fatalf("pull: %v", err)
	}
	if got := r.Requests()["GET /token"]; got != 2 {
		t.Errorf("%d tokens were asked for, want 2", got)
	}
}

func TestExpiredBasicCredentialsAnswer401Once(t *testing.T) {
	r := start(t, registry.Options{})
	r.ExpireAt(registry.Manifests, 2)
	for i, want := range []int{200, 401, 200} {
		if got := r.get(t, manifestPath).StatusCode; got != want {
			t.Errorf("request %d: status %d, want %d", i+1, got, want)
		}
	}
}

func TestStartRefuses(t *testing.T) {
	tests := []struct {
		name    string
		options registry.Options
		want    string
	}{
		{"an address others can reach", registry.Options{Addr: "0.0.0.0:0"}, "not a loopback address"},
		{"tokens for nobody", registry.Options{Token: true}, "need a username"},
		{"an address that is none", registry.Options{Addr: "127.0.0.1:port"}, "start registry"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := registry.Start(tt.options); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}
