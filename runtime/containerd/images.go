package containerd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
	"github.com/containerd/platforms"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/heteroflow/node-agent/runtime"
)

// Image looks for a local image. Its id is the digest of its manifest or index, its size
// what it takes in the content store, packed.
func (r *Runtime) Image(ctx context.Context, ref string) (runtime.Image, error) {
	named, err := runtime.ParseReference(ref)
	if err != nil {
		return runtime.Image{}, err
	}
	call, cancel := r.bound(ctx, readTimeout)
	defer cancel()
	img, err := r.describe(call, named)
	return img, translate(ctx, "look for image "+named.String(), err)
}

func (r *Runtime) describe(ctx context.Context, named reference.Named) (runtime.Image, error) {
	found, err := r.findImage(ctx, named)
	if err != nil {
		return runtime.Image{}, err
	}
	same, err := r.client.ImageService().List(ctx, "target.digest=="+found.Target.Digest.String())
	if err != nil {
		return runtime.Image{}, err
	}
	store := r.client.ContentStore()
	size, err := sizeOf(found.Target.Digest, func(d digest.Digest) (content.Info, error) { return store.Info(ctx, d) })
	if err != nil {
		return runtime.Image{}, err
	}
	return imageOf(same, size), nil
}

// findImage looks for exactly the reference given. One with a digest is also found under
// another name of the same repository, whose content has that digest.
func (r *Runtime) findImage(ctx context.Context, named reference.Named) (images.Image, error) {
	store := r.client.ImageService()
	img, err := store.Get(ctx, named.String())
	digested, ok := named.(reference.Digested)
	if err == nil || !errdefs.IsNotFound(err) || !ok {
		return img, err
	}
	same, err := store.List(ctx, "target.digest=="+digested.Digest().String())
	if err != nil {
		return images.Image{}, err
	}
	for _, img := range same {
		other, err := reference.ParseNormalizedNamed(img.Name)
		if err == nil && other.Name() == named.Name() && tagAgrees(named, other) {
			return img, nil
		}
	}
	return images.Image{}, fmt.Errorf("image %s: %w", named, errdefs.ErrNotFound)
}

func tagAgrees(wanted, other reference.Named) bool {
	tag, ok := wanted.(reference.Tagged)
	if !ok {
		return true
	}
	otherTag, ok := other.(reference.Tagged)
	return ok && otherTag.Tag() == tag.Tag()
}

// Images lists the images of the namespace in two calls, one for their names and one for
// the sizes of all content.
func (r *Runtime) Images(ctx context.Context) ([]runtime.Image, error) {
	call, cancel := r.bound(ctx, readTimeout)
	defer cancel()
	list, err := r.listImages(call)
	return list, translate(ctx, "list images", err)
}

func (r *Runtime) listImages(ctx context.Context) ([]runtime.Image, error) {
	all, err := r.client.ImageService().List(ctx)
	if err != nil {
		return nil, err
	}
	infos := map[digest.Digest]content.Info{}
	err = r.client.ContentStore().Walk(ctx, func(info content.Info) error {
		infos[info.Digest] = info
		return nil
	})
	if err != nil {
		return nil, err
	}
	byTarget := map[digest.Digest][]images.Image{}
	for _, img := range all {
		byTarget[img.Target.Digest] = append(byTarget[img.Target.Digest], img)
	}
	var list []runtime.Image
	for target, same := range byTarget {
		size, err := sizeOf(target, func(d digest.Digest) (content.Info, error) {
			if info, ok := infos[d]; ok {
				return info, nil
			}
			return content.Info{}, errdefs.ErrNotFound
		})
		if err != nil {
			return nil, err
		}
		list = append(list, imageOf(same, size))
	}
	slices.SortFunc(list, func(a, b runtime.Image) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// imageOf joins the names of one content.
func imageOf(same []images.Image, size int64) runtime.Image {
	target := same[0].Target.Digest
	img := runtime.Image{ID: target.String(), SizeBytes: size, Labels: same[0].Labels}
	for _, s := range same {
		named, err := reference.ParseNormalizedNamed(s.Name)
		if err != nil {
			continue // made by another client: not a name that anything here could ask for
		}
		img.Refs = append(img.Refs, named.String())
		if byDigest, err := reference.WithDigest(reference.TrimNamed(named), target); err == nil {
			img.Refs = append(img.Refs, byDigest.String())
		}
	}
	slices.Sort(img.Refs)
	img.Refs = slices.Compact(img.Refs)
	return img
}

// refPrefix begins the labels by which containerd's garbage collector, and we, follow
// content from an index to the layers.
const refPrefix = "containerd.io/gc.ref.content"

// sizeOf adds up what is present of an image. Parts for other platforms are not.
func sizeOf(target digest.Digest, info func(digest.Digest) (content.Info, error)) (int64, error) {
	var total int64
	seen := map[digest.Digest]bool{target: true}
	for todo := []digest.Digest{target}; len(todo) > 0; {
		next := todo[0]
		todo = todo[1:]
		i, err := info(next)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		total += i.Size
		for label, value := range i.Labels {
			if d := digest.Digest(value); strings.HasPrefix(label, refPrefix) && !seen[d] {
				seen[d] = true
				todo = append(todo, d)
			}
		}
	}
	return total, nil
}

// imageConfig is what a container needs of an image.
type imageConfig struct {
	config ocispec.ImageConfig
	chain  string // the snapshot of its layers
}

// configCache keeps the configurations of the images used last: they are small, never
// change under a digest, and take half a dozen calls to read.
type configCache struct {
	mu   sync.Mutex
	byID map[digest.Digest]imageConfig
}

const maxCachedConfigs = 64

func (r *Runtime) configOf(ctx context.Context, img images.Image) (imageConfig, error) {
	r.images.mu.Lock()
	cached, ok := r.images.byID[img.Target.Digest]
	r.images.mu.Unlock()
	if ok {
		return cached, nil
	}
	store := r.client.ContentStore()
	manifest, err := images.Manifest(ctx, store, img.Target, platforms.Default())
	if err != nil {
		return imageConfig{}, err
	}
	data, err := content.ReadBlob(ctx, store, manifest.Config)
	if err != nil {
		return imageConfig{}, err
	}
	var decoded ocispec.Image
	if err := json.Unmarshal(data, &decoded); err != nil {
		return imageConfig{}, fmt.Errorf("%w: configuration of image %s: %w", runtime.ErrInvalid, img.Name, err)
	}
	got := imageConfig{config: decoded.Config, chain: identity.ChainID(decoded.RootFS.DiffIDs).String()}

	r.images.mu.Lock()
	defer r.images.mu.Unlock()
	if r.images.byID == nil || len(r.images.byID) >= maxCachedConfigs {
		r.images.byID = map[digest.Digest]imageConfig{}
	}
	r.images.byID[img.Target.Digest] = got
	return got, nil
}
