package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/distribution/reference"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// SaveHybrid writes an OCI layout that is a docker archive too: its
// manifest.json points into the blobs. docker load (which takes a plain layout
// only with the containerd image store) and ctr images import take it, and the
// image keeps its digest.
func SaveHybrid(img v1.Image, ref, path string) (err error) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return fmt.Errorf("save hybrid archive: %w", err)
	}
	tagged, ok := reference.TagNameOnly(named).(reference.NamedTagged)
	if !ok {
		return fmt.Errorf("save hybrid archive: %s has no tag", ref)
	}
	out, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("save hybrid archive: %w", err)
	}
	archive := archive{tar.NewWriter(out), map[v1.Hash]bool{}}
	err = archive.addImage(img, tagged)
	if err := errors.Join(err, archive.Close(), out.Close()); err != nil {
		return fmt.Errorf("save hybrid archive %s: %w", path, err)
	}
	return nil
}

// archive is a tar file of blobs and of the files that point at them.
type archive struct {
	*tar.Writer
	written map[v1.Hash]bool
}

func (a archive) addImage(img v1.Image, ref reference.NamedTagged) error {
	manifest, err := img.Manifest()
	if err != nil {
		return err
	}
	layers, err := img.Layers()
	if err != nil {
		return err
	}
	entry := tarball.Descriptor{Config: blobPath(manifest.Config.Digest), RepoTags: []string{reference.FamiliarString(ref)}}
	for _, l := range layers {
		digest, err := a.addLayer(l)
		if err != nil {
			return err
		}
		entry.Layers = append(entry.Layers, blobPath(digest))
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return err
	}
	if err := a.addFile(entry.Config, config); err != nil {
		return err
	}
	index, err := a.addManifest(img, ref)
	if err != nil {
		return err
	}
	return errors.Join(
		a.addJSON("index.json", index),
		a.addJSON("manifest.json", tarball.Manifest{entry}),
		a.addJSON("oci-layout", map[string]string{"imageLayoutVersion": "1.0.0"}),
	)
}

func (a archive) addManifest(img v1.Image, ref reference.NamedTagged) (v1.IndexManifest, error) {
	digest, err := img.Digest()
	if err != nil {
		return v1.IndexManifest{}, err
	}
	raw, err := img.RawManifest()
	if err != nil {
		return v1.IndexManifest{}, err
	}
	mediaType, err := img.MediaType()
	if err != nil {
		return v1.IndexManifest{}, err
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{{
		MediaType: mediaType,
		Digest:    digest,
		Size:      int64(len(raw)),
		// containerd takes the image's name from the first, others the tag
		// from the second.
		Annotations: map[string]string{
			"io.containerd.image.name":          ref.String(),
			"org.opencontainers.image.ref.name": ref.Tag(),
		},
	}}}
	return index, a.addFile(blobPath(digest), raw)
}

func (a archive) addLayer(l v1.Layer) (v1.Hash, error) {
	digest, err := l.Digest()
	if err != nil || a.written[digest] {
		return digest, err
	}
	a.written[digest] = true
	size, err := l.Size()
	if err != nil {
		return digest, err
	}
	blob, err := l.Compressed()
	if err != nil {
		return digest, err
	}
	return digest, errors.Join(a.add(blobPath(digest), size, blob), blob.Close())
}

func (a archive) addJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return a.addFile(path, data)
}

func (a archive) addFile(path string, data []byte) error {
	return a.add(path, int64(len(data)), bytes.NewReader(data))
}

func (a archive) add(path string, size int64, data io.Reader) error {
	header := &tar.Header{Name: path, Mode: 0o644, Size: size, ModTime: time.Unix(0, 0)}
	if err := a.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(a, data)
	return err
}

func blobPath(digest v1.Hash) string {
	return "blobs/" + digest.Algorithm + "/" + digest.Hex
}
