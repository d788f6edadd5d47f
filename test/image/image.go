// Package image makes container images from scratch around the workload
// program, saves them for a runtime to load and pushes them to a registry.
//
// Nothing is ever fetched: an image holds the workload, built from this
// module's source by the go command, and a few small files. The same options
// give the same digest. The package runs no goroutines; what it builds is kept
// in memory for the life of the process.
package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The user every image knows besides root, and the group it is also in.
const (
	AppUser    = "app"
	AppUID     = 1001
	ExtraGroup = "extra"
	ExtraGID   = 2001
)

// DefaultEnv is in the environment of every image.
const DefaultEnv = "IMAGE_ENV=1"

// Options vary an image. The zero value is the plain image: ENTRYPOINT
// /workload, command "exit 0", no USER, working directory /.
type Options struct {
	Arch    string   // GOARCH of the image; the host's if empty
	Env     []string // K=V entries after DefaultEnv, as NVIDIA_VISIBLE_DEVICES=all
	Cmd     []string // arguments of the entrypoint instead of "exit 0"
	Fillers []Filler // layers of noise, to make a pull slow
}

// Filler is a layer with one file of Bytes that do not compress. Another Seed
// gives another layer, which no runtime has cached yet.
type Filler struct {
	Bytes int64
	Seed  uint64
}

// Build makes the image. It needs the go command and a working directory inside
// this module.
func Build(ctx context.Context, o Options) (v1.Image, error) {
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	root, err := roots.get(ctx, o.Arch)
	if err != nil {
		return nil, err
	}
	layers := []v1.Layer{root}
	for _, f := range o.Fillers {
		filler, err := layer(gzip.NoCompression, []file{f.file()})
		if err != nil {
			return nil, fmt.Errorf("build filler layer: %w", err)
		}
		layers = append(layers, filler)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		return nil, fmt.Errorf("build image: %w", err)
	}
	return configure(img, o)
}

func configure(img v1.Image, o Options) (v1.Image, error) {
	config, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("configure image: %w", err)
	}
	config = config.DeepCopy()
	config.OS = "linux"
	config.Architecture = o.Arch
	config.Created = v1.Time{Time: time.Unix(0, 0).UTC()}
	config.Config.Entrypoint = []string{"/workload"}
	config.Config.Cmd = o.Cmd
	if o.Cmd == nil {
		config.Config.Cmd = []string{"exit", "0"}
	}
	config.Config.Env = append([]string{DefaultEnv}, o.Env...)
	config.Config.WorkingDir = "/"
	img, err = mutate.ConfigFile(img, config)
	if err != nil {
		return nil, fmt.Errorf("configure image: %w", err)
	}
	return img, nil
}

// Push uploads the image to ref, over http where the registry is on this host.
// An empty username pushes without credentials.
func Push(ctx context.Context, img v1.Image, ref, username, password string) error {
	target, err := name.ParseReference(ref)
	if err != nil {
		return fmt.Errorf("push image: %w", err)
	}
	auth := authn.Anonymous
	if username != "" {
		auth = &authn.Basic{Username: username, Password: password}
	}
	if err := remote.Write(target, img, remote.WithContext(ctx), remote.WithAuth(auth)); err != nil {
		return fmt.Errorf("push image %s: %w", ref, err)
	}
	return nil
}

// file is an entry of a layer: a directory if its name ends in a slash.
type file struct {
	name string
	mode int64
	data []byte
}

func rootFiles(program []byte) []file {
	passwd := fmt.Sprintf("root:x:0:0:root:/:\n%s:x:%d:%d::/:\n", AppUser, AppUID, AppUID)
	group := fmt.Sprintf("root:x:0:\n%s:x:%d:\n%s:x:%d:%s\n", AppUser, AppUID, ExtraGroup, ExtraGID, AppUser)
	return []file{
		{"etc/", 0o755, nil},
		{"etc/group", 0o644, []byte(group)},
		{"etc/passwd", 0o644, []byte(passwd)},
		{"tmp/", 0o1777, nil},
		{"workload", 0o755, program},
	}
}

func (f Filler) file() file {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], f.Seed)
	data := make([]byte, f.Bytes)
	_, _ = rand.NewChaCha8(seed).Read(data) // documented never to fail
	return file{fmt.Sprintf("filler-%d", f.Seed), 0o644, data}
}

// layer packs files with the epoch as their time, so that packing them again
// gives the same bytes.
func layer(compression int, files []file) (v1.Layer, error) {
	var packed bytes.Buffer
	writer := tar.NewWriter(&packed)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: time.Unix(0, 0)}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
		if _, err := writer.Write(f.data); err != nil {
			return nil, fmt.Errorf("pack %s: %w", f.name, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("pack layer: %w", err)
	}
	return tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil },
		tarball.WithCompressionLevel(compression),
		tarball.WithCompressedCaching,
		tarball.WithMediaType(types.OCILayer),
	)
}
