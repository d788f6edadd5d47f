package runtimetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/registry"
)

// slowImage pushes an image with a layer of noise that no daemon has yet.
func (s *suite) slowImage(t *testing.T, name string, size int64) string {
	t.Helper()
	layer, err := random.Layer(size, types.OCILayer)
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(s.variant(t, "SLOW"), layer)
	if err != nil {
		t.Fatal(err)
	}
	ref := pushTo(t, s.registry, name, img)
	s.removeImageLater(t, ref)
	return ref
}

// startRegistry starts another registry for one test.
func startRegistry(t *testing.T, o registry.Options) *registry.Registry {
	t.Helper()
	r, err := registry.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (s *suite) testPull(t *testing.T) {
	t.Run("progress grows to all bytes and is never reported twice at once", s.pullProgress)
	t.Run("before the first layer it is said what is missing, and that may be refused", s.pullAdmitted)
	t.Run("an image that is here is pulled again without a change", func(t *testing.T) {
		first, err := s.rt.Image(t.Context(), s.image)
		if err != nil {
			t.Fatal(err)
		}
		again, err := s.rt.Pull(t.Context(), runtime.PullRequest{Ref: s.image, Auth: s.auth})
		if err != nil || again.ID != first.ID {
			t.Errorf("got %+v, %v, want %+v", again, err, first)
		}
	})
	t.Run("wrong or missing credentials are told apart from a missing image", s.pullCredentials)
	t.Run("credentials are for one pull alone", s.pullForgets)
	t.Run("a registry that hands out tokens is satisfied", s.pullToken)
	t.Run("a tag or repository that is not there is not found", func(t *testing.T) {
		for _, name := range []string{"workload:absent", "absent/repository:v1", "workload@sha256:" + strings.Repeat("0", 64)} {
			_, err := s.rt.Pull(t.Context(), runtime.PullRequest{Ref: s.registry.Ref(name), Auth: s.auth})
			wantClass(t, err, runtime.ErrNotFound)
		}
	})
	t.Run("a registry that does not answer is unavailable", func(t *testing.T) {
		r, err := registry.Start(registry.Options{})
		if err != nil {
			t.Fatal(err)
		}
		ref := r.Ref("x:v1")
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = s.rt.Pull(t.Context(), runtime.PullRequest{Ref: ref})
		wantClass(t, err, runtime.ErrRegistryUnavailable)
	})
	t.Run("a web page instead of an image is a broken registry", func(t *testing.T) {
		r := startRegistry(t, registry.Options{})
		pushTo(t, r, "x:v1", s.workload)
		r.AnswerHTML(registry.Any, 100)
		_, err := s.rt.Pull(t.Context(), runtime.PullRequest{Ref: r.Ref("x:v1")})
		wantClass(t, err, runtime.ErrRegistryUnavailable)
	})
	t.Run("an image of which a layer is none is the registry's trouble and not the daemon's", func(t *testing.T) {
		img, err := mutate.AppendLayers(s.workload, static.NewLayer([]byte("neither packed nor an archive"), types.OCILayer))
		if err != nil {
			t.Fatal(err)
		}
		ref := pushTo(t, s.registry, "spoilt:v1", img)
		_, err = s.rt.Pull(t.Context(), runtime.PullRequest{Ref: ref, Auth: s.auth})
		wantClass(t, err, runtime.ErrRegistryUnavailable)
	})
	t.Run("a registry that throttles is told apart", s.pullThrottled)
	t.Run("a registry says whether a pull would be let in, of an image that is here too", s.pullAllowed)
	t.Run("and when it cannot say so, the reason is told as that of a pull is", s.pullNotConfirmed)
	t.Run("a cancelled pull returns at once and can be repeated", s.pullCancelled)
	t.Run("two pulls of one image at once both succeed", s.pullTwice)
}

func (s *suite) pullProgress(t *testing.T) {
	const size = 2 << 20
	ref := s.slowImage(t, "slow:v1", size)
	s.registry.Slow(registry.Blobs, 4<<20)
	defer s.registry.Heal()
	var calling atomic.Bool
	var last runtime.PullProgress
	calls := 0
	_, err := s.rt.Pull(t.Context(), runtime.PullRequest{Ref: ref, Auth: s.auth, Progress: func(p runtime.PullProgress) {
		if !calling.CompareAndSwap(false, true) {
			t.Error("called while it is being called")
		}
		defer calling.Store(false)
		if p.BytesDone < last.BytesDone || p.BytesTotal < last.BytesTotal || p.BytesTotal > 0 && p.BytesDone > p.BytesTotal {
			t.Errorf("%+v after %+v", p, last)
		}
		calls++
		last = p
	}})
	if err != nil {
		t.Fatal(err)
	}
	if calls < 2 || last.BytesTotal < size || last.BytesDone != last.BytesTotal {
		t.Errorf("%d calls, the last with %+v", calls, last)
	}
}

// pullAdmitted pulls an image of which the daemon lacks one layer of noise.
func (s *suite) pullAdmitted(t *testing.T) {
	const size = 1 << 20
	ref := s.slowImage(t, "admitted:v1", size)
	var asked []runtime.Fetch
	admit := func(answer error) func(runtime.Fetch) error {
		return func(f runtime.Fetch) error {
			asked = append(asked, f)
			return answer
		}
	}
	noRoom := errors.New("there is no room")
	_, err := s.rt.Pull(t.Context(), runtime.PullRequest{Ref: ref, Auth: s.auth, Admit: admit(noRoom)})
	wantClass(t, err, noRoom)
	if errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("the daemon is blamed: %v", err)
	}
	var fetched []string
	for request := range s.registry.Requests() {
		if strings.HasPrefix(request, "GET /v2/admitted/blobs/") {
			fetched = append(fetched, request)
		}
	}
	if len(fetched) > 1 {
		t.Errorf("fetched %q, want at most the configuration", fetched)
	}
	_, err = s.rt.Image(t.Context(), ref)
	wantClass(t, err, runtime.ErrNotFound)
	for range 2 {
		if _, err := s.rt.Pull(t.Context(), runtime.PullRequest{Ref: ref, Auth: s.auth, Admit: admit(nil)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(asked) != 3 {
		t.Fatalf("asked %d times by three pulls: %+v", len(asked), asked)
	}
	for _, f := range asked[:2] {
		if f.Unknown != nil || f.Layers != 1 || f.PackedBytes < size || f.PackedBytes > size+size/10 || f.PlainBytes != 0 {
			t.Errorf("one layer of %d bytes is missing, said is %+v", size, f)
		}
	}
	if asked[2] != (runtime.Fetch{}) {
		t.Errorf("nothing is missing any more, said is %+v", asked[2])
	}
}

func (s *suite) pullCredentials(t *testing.T) {
	ref := pushTo(t, s.registry, "secret:v1", s.variant(t, "SECRET"))
	wrong := "not-the-" + s.run
	for _, auth := range []*runtime.RegistryAuth{nil, {}, {Username: username, Password: wrong}, {Username: wrong, Password: password}} {
		_, err := s.rt.Pull(t.Context(), runtime.PullRequest{Ref: ref, Auth: auth})
		wantClass(t, err, runtime.ErrUnauthorized)
		if err != nil && (strings.Contains(err.Error(), password) || auth != nil && auth.Password == wrong && strings.Contains(err.Error(), wrong)) {
			t.Errorf("the error holds a password: %v", err)
		}
	}
	_, err := s.rt.Image(t.Context(), ref)
	wantClass(t, err, runtime.ErrNotFound)
	s.pull(t, ref)
}

func (s *suite) pullForgets(t *testing.T) {
	ref := pushTo(t, s.registry, "private:v1", s.variant(t, "PRIVATE"))
	s.pull(t, ref)
	for _, rt := range []runtime.Runtime{s.rt, s.client(t)} {
		_, err := rt.Pull(t.Context(), runtime.PullRequest{Ref: ref})
		wantClass(t, err, runtime.ErrUnauthorized)
	}
}

func (s *suite) pullToken(t *testing.T) {
	r := startRegistry(t, registry.Options{Username: username, Password: password, Token: true})
	ref := pushTo(t, r, "token:v1", s.variant(t, "TOKEN"))
	_, err := s.rt.Pull(t.Context(), runtime.PullRequest{Ref: ref, Auth: &runtime.RegistryAuth{Username: username, Password: "wrong"}})
	wantClass(t, err, runtime.ErrUnauthorized)
	_, err = s.rt.Pull(t.Context(), runtime.PullRequest{Ref: ref})
	wantClass(t, err, runtime.ErrUnauthorized)
	s.pull(t, ref)
	if users := r.Users(); !slices.Contains(users, username) {
		t.Errorf("the registry has seen %q", users)
	}
}

func (s *suite) pullAllowed(t *testing.T) {
	token := startRegistry(t, registry.Options{Username: username, Password: password, Token: true})
	public := startRegistry(t, registry.Options{})
	for _, r := range []*registry.Registry{s.registry, token} {
		ref := pushTo(t, r, "mine:v1", s.variant(t, "MINE"))
		for _, here := range []bool{false, true} {
			if here {
				s.pull(t, ref)
			}
			if err := s.rt.CanPull(t.Context(), ref, s.auth); err != nil {
				t.Errorf("here: %t: with the credentials: %v", here, err)
			}
			for _, auth := range []*runtime.RegistryAuth{nil, {Username: username, Password: "wrong"}} {
				wantClass(t, s.rt.CanPull(t.Context(), ref, auth), runtime.ErrUnauthorized)
			}
			wantClass(t, s.rt.CanPull(t.Context(), r.Ref("absent/repository:v1"), s.auth), runtime.ErrNotFound)
		}
	}
	ref := pushTo(t, public, "everybodys:v1", s.variant(t, "PUBLIC"))
	if err := s.rt.CanPull(t.Context(), ref, nil); err != nil {
		t.Errorf("without credentials where none are wanted: %v", err)
	}
	_, err := s.rt.Image(t.Context(), ref)
	wantClass(t, err, runtime.ErrNotFound) // it was only asked about
}

func (s *suite) pullNotConfirmed(t *testing.T) {
	r, err := registry.Start(registry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ref := pushTo(t, r, "mine:v1", s.variant(t, "UNCONFIRMED"))
	r.Throttle(registry.Manifests, 100, 7*time.Second)
	wantClass(t, s.rt.CanPull(t.Context(), ref, nil), runtime.ErrThrottled)
	r.Heal()
	if err := s.rt.CanPull(t.Context(), ref, nil); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	wantClass(t, s.rt.CanPull(t.Context(), ref, nil), runtime.ErrRegistryUnavailable)
	wantClass(t, s.rt.CanPull(t.Context(), "Not A Reference", nil), runtime.ErrInvalid)
}

func (s *suite) pullThrottled(t *testing.T) {
	const wait = 7 * time.Second
	r := startRegistry(t, registry.Options{})
	ref := pushTo(t, r, "busy:v1", s.variant(t, "BUSY"))
	s.removeImageLater(t, ref)
	r.Throttle(registry.Manifests, 100, wait)
	_, err := s.rt.Pull(t.Context(), runtime.PullRequest{Ref: ref})
	wantClass(t, err, runtime.ErrThrottled)
	throttled, ok := errors.AsType[*runtime.ThrottledError](err)
	if !ok {
		t.Fatalf("got %T, want a ThrottledError", err)
	}
	want := wait
	if s.HidesRetryAfter {
		want = 0
	}
	if throttled.RetryAfter != want {
		t.Errorf("retry after %v, want %v", throttled.RetryAfter, want)
	}
	r.Heal()
	if _, err := s.rt.Pull(t.Context(), runtime.PullRequest{Ref: ref}); err != nil {
		t.Error(err)
	}
}

func (s *suite) pullCancelled(t *testing.T) {
	ref := s.slowImage(t, "stalled:v1", 1<<20)
	stall := s.registry.Stall(registry.Blobs, 64<<10)
	defer s.registry.Heal()
	defer stall.Release()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := s.rt.Pull(ctx, runtime.PullRequest{Ref: ref, Auth: s.auth})
		done <- err
	}()
	select {
	case <-stall.Reached():
	case err := <-done:
		t.Fatalf("the pull ended before the stall: %v", err)
	}
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) || errors.Is(err, runtime.ErrUnavailable) {
			t.Errorf("got %v, want the context's error alone", err)
		}
	case <-time.After(patience): // the stall lasts until it is released
		t.Fatal("the pull goes on after its context has ended")
	}
	s.registry.Heal()
	stall.Release()
	s.pull(t, ref)
}

func (s *suite) pullTwice(t *testing.T) {
	ref := s.slowImage(t, "shared:v1", 1<<20)
	ids := make(chan string, 2)
	for range 2 {
		go func() {
			img, err := s.rt.Pull(t.Context(), runtime.PullRequest{Ref: ref, Auth: s.auth})
			if err != nil {
				t.Error(err)
			}
			ids <- img.ID
		}()
	}
	if first, second := <-ids, <-ids; first != second || first == "" {
		t.Errorf("got images %q and %q", first, second)
	}
}
