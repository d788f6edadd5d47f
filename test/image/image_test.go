package image_test

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/heteroflow/node-agent/test/image"
	"github.com/heteroflow/node-agent/test/registry"
)

func build(t *testing.T, o image.Options) v1.Image {
	t.Helper()
	img, err := image.Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func digest(t *testing.T, img v1.Image) v1.Hash {
	t.Helper()
	d, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDigestDependsOnTheOptionsAlone(t *testing.T) {
	plain := digest(t, build(t, image.Options{}))
	if again := digest(t, build(t, image.Options{})); again != plain {
		t.Errorf("same options, other digest: %s, %s", plain, again)
	}
	seen := map[v1.Hash]string{plain: "plain"}
	variants := map[string]image.Options{
		"env":          {Env: []string{"NVIDIA_VISIBLE_DEVICES=all"}},
		"command":      {Cmd: []string{"sleep", "1h"}},
		"filler":       {Fillers: []image.Filler{{Bytes: 1000, Seed: 1}}},
		"other filler": {Fillers: []image.Filler{{Bytes: 1000, Seed: 2}}},
	}
	for variant, options := range variants {
		d := digest(t, build(t, options))
		if other, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", variant, other)
		}
		seen[d] = variant
	}
}

func TestConfigOfThePlainImage(t *testing.T) {
	config, err := build(t, image.Options{Env: []string{"A=1"}}).ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{
		Entrypoint: []string{"/workload"},
		Cmd:        []string{"exit", "0"},
		Env:        []string{"IMAGE_ENV=1", "A=1"},
		WorkingDir: "/",
	}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

// contents reads the image's flattened file system.
func contents(t *testing.T, img v1.Image) map[string]file {
	t.Helper()
	flat := mutate.Extract(img)
	defer flat.Close()
	files := map[string]file{}
	for reader := tar.NewReader(flat); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(header.Name, "/")] = file{header.Mode, data}
	}
}

type file struct {
	mode int64
	data []byte
}

func TestFilesOfTheImage(t *testing.T) {
	files := contents(t, build(t, image.Options{}))
	if got := string(files["etc/passwd"].data); !strings.Contains(got, "\napp:x:1001:1001:") {
		t.Errorf("passwd = %q", got)
	}
	if got := string(files["etc/group"].data); !strings.Contains(got, "\nextra:x:2001:app\n") {
		t.Errorf("group = %q", got)
	}
	if got := files["tmp"].mode; got != 0o1777 {
		t.Errorf("mode of /tmp = %o", got)
	}
	program := files["workload"]
	if program.mode != 0o755 {
		t.Errorf("mode of /workload = %o", program.mode)
	}
	binary, err := elf.NewFile(bytes.NewReader(program.data))
	if err != nil {
		t.Fatal(err)
	}
	for _, segment := range binary.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Error("/workload is not static")
		}
	}
}

func TestHybridArchiveIsBothKinds(t *testing.T) {
	img := build(t, image.Options{Fillers: []image.Filler{{Bytes: 100}, {Bytes: 100}}})
	path := filepath.Join(t.TempDir(), "hybrid.tar")
	if err := image.SaveHybrid(img, "hybrid:v1", path); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("hybrid:v1")
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tarball.ImageFromPath(path, &tag)
	if err != nil {
		t.Fatalf("as a docker archive: %v", err)
	}
	if err := validate.Image(loaded); err != nil {
		t.Errorf("as a docker archive: %v", err)
	}
	dir := unpack(t, path)
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatalf("as an OCI layout: %v", err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("as an OCI layout: %v", err)
	}
	var written v1.IndexManifest
	data, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &written); err != nil {
		t.Fatal(err)
	}
	if got := written.Manifests[0]; got.Digest != digest(t, img) || got.Annotations["io.containerd.image.name"] != "docker.io/library/hybrid:v1" {
		t.Errorf("index entry = %+v", got)
	}
}

func unpack(t *testing.T, path string) string {
	t.Helper()
	archive, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	dir := t.TempDir()
	for reader := tar.NewReader(archive); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(dir, filepath.FromSlash(header.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPushNeedsCredentialsWhereTheRegistryAsks(t *testing.T) {
	r, err := registry.Start(registry.Options{Username: "ci", Password: "right"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	img := build(t, image.Options{})
	if err := image.Push(t.Context(), img, r.Ref("app:v1"), "", ""); err == nil {
		t.Error("pushed without credentials")
	}
	if err := image.Push(t.Context(), img, r.Ref("app:v1"), "ci", "right"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Push(img, "app:v1"); err != nil {
		t.Error(err)
	}
	if transport, ok := remote.DefaultTransport.(interface{ CloseIdleConnections() }); ok {
		transport.CloseIdleConnections()
	}
}

func TestBuildNamesWhatTheGoCommandSaid(t *testing.T) {
	_, err := image.Build(t.Context(), image.Options{Arch: "abacus"})
	if err == nil || !strings.Contains(err.Error(), "linux/abacus") {
		t.Errorf("error %v, want the unknown platform in it", err)
	}
}
