package runtimetest

import (
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/heteroflow/node-agent/runtime"
	"github.com/heteroflow/node-agent/test/registry"
)

// variant is the workload image with one more variable in its environment, which makes
// it another image of the same layers: building one anew takes seconds.
func (s *suite) variant(t *testing.T, variable string) v1.Image {
	t.Helper()
	config, err := s.workload.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.Config.Env = append(config.Config.Env, variable+"="+s.run)
	img, err := mutate.ConfigFile(s.workload, config)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func pushTo(t *testing.T, r *registry.Registry, name string, img v1.Image) string {
	t.Helper()
	ref, err := r.Push(img, name)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// pull fetches an image of the suite's registry, which the test's end removes.
func (s *suite) pull(t *testing.T, ref string) runtime.Image {
	t.Helper()
	s.removeImageLater(t, ref)
	img, err := s.rt.Pull(t.Context(), runtime.PullRequest{Ref: ref, Auth: s.auth})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func (s *suite) removeImageLater(t *testing.T, ref string) {
	t.Helper()
	t.Cleanup(func() {
		if err := s.RemoveImage(cleanUpContext(t), ref); err != nil {
			t.Errorf("remove image %s: %v", ref, err)
		}
	})
}

func digestOf(t *testing.T, img v1.Image) string {
	t.Helper()
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func (s *suite) testImages(t *testing.T) {
	img := s.variant(t, "FIRST")
	ref := pushTo(t, s.registry, "team/app:v1", img)
	app := appImage{
		Image:      s.pull(t, ref),
		tagged:     ref,
		repository: strings.TrimSuffix(ref, ":v1"),
		digest:     digestOf(t, img),
	}
	t.Run("a pulled image has its id, names and size", func(t *testing.T) {
		if !strings.HasPrefix(app.ID, "sha256:") || app.SizeBytes < 1<<20 {
			t.Errorf("got %+v", app.Image)
		}
		for _, want := range []string{app.tagged, app.byDigest()} {
			if !slices.Contains(app.Refs, want) {
				t.Errorf("got names %q, want %s", app.Refs, want)
			}
		}
	})
	t.Run("an image is present by tag, by digest and by both", func(t *testing.T) {
		for _, ref := range []string{app.tagged, app.byDigest(), app.tagged + "@" + app.digest} {
			got, err := s.rt.Image(t.Context(), ref)
			if err != nil || got.ID != app.ID {
				t.Errorf("%s: got %+v, %v", ref, got, err)
			}
		}
	})
	t.Run("an image is not present under another registry, repository, tag or digest", func(t *testing.T) { s.absentImages(t, app) })
	t.Run("a malformed reference is invalid", func(t *testing.T) { s.malformedReferences(t, app) })
	t.Run("a container runs from a digest", func(t *testing.T) {
		spec := s.spec("exit", "5")
		spec.Image = app.byDigest()
		c, exit := s.finish(t, spec)
		wantCode(t, exit, 5)
		if c.Image != spec.Image {
			t.Errorf("its image is %s, want %s", c.Image, spec.Image)
		}
	})
	t.Run("the list of images has what was pulled", func(t *testing.T) { s.listImages(t, app) })
	t.Run("a tag that moved names the new image", func(t *testing.T) { s.movedTag(t, app) })
}

// appImage is an image that the daemon has.
type appImage struct {
	runtime.Image
	tagged, repository, digest string
}

func (a appImage) byDigest() string { return a.repository + "@" + a.digest }

func (s *suite) absentImages(t *testing.T, app appImage) {
	_, port, _ := strings.Cut(s.registry.Addr(), ":")
	other := "sha256:" + strings.Repeat("0", 64)
	for _, ref := range []string{
		"localhost:" + port + "/team/app:v1", "127.0.0.1:1/team/app:v1", "registry.example/team/app:v1",
		"team/app:v1", "app:v1", app.repository, app.repository + ":v", app.repository + ":v11",
		s.registry.Ref("team:v1"), app.repository + "@" + other, app.tagged + "@" + other,
		strings.TrimPrefix(app.ID, "sha256:")[:12],
	} {
		got, err := s.rt.Image(t.Context(), ref)
		wantClass(t, err, runtime.ErrNotFound)
		if err == nil {
			t.Errorf("%s is taken for %q", ref, got.Refs)
		}
	}
}

func (s *suite) malformedReferences(t *testing.T, app appImage) {
	for _, ref := range []string{"", "UPPER/x", "a b", "x@sha256:12", "../x", strings.TrimPrefix(app.ID, "sha256:")} {
		_, err := s.rt.Image(t.Context(), ref)
		wantClass(t, err, runtime.ErrInvalid)
		_, err = s.rt.Pull(t.Context(), runtime.PullRequest{Ref: ref})
		wantClass(t, err, runtime.ErrInvalid)
	}
}

func (s *suite) listImages(t *testing.T, app appImage) {
	images, err := s.rt.Images(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(images, func(i runtime.Image) bool { return slices.Contains(i.Refs, app.tagged) })
	if i < 0 || images[i].ID != app.ID || images[i].SizeBytes != app.SizeBytes {
		t.Errorf("not among %d images, or another: %+v", len(images), app.Image)
	}
}

func (s *suite) movedTag(t *testing.T, app appImage) {
	second := s.variant(t, "SECOND")
	pushTo(t, s.registry, "team/app:v1", second)
	now := s.pull(t, app.tagged)
	s.removeImageLater(t, app.byDigest())
	if now.ID == app.ID || !slices.Contains(now.Refs, app.repository+"@"+digestOf(t, second)) {
		t.Errorf("got %+v, was %+v", now, app.Image)
	}
}
