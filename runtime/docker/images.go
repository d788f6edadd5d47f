package docker

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/runtime"
)

// Image looks for a local image by the exact reference. With a tag and a digest the
// digest decides, as it does for the daemon.
func (r *Runtime) Image(ctx context.Context, ref string) (runtime.Image, error) {
	named, err := runtime.ParseReference(ref)
	if err != nil {
		return runtime.Image{}, err
	}
	image, err := r.image(ctx, named)
	if err != nil {
		return runtime.Image{}, fmt.Errorf("inspect image %s: %w", named, err)
	}
	return image, nil
}

func (r *Runtime) image(ctx context.Context, named reference.Named) (runtime.Image, error) {
	exact := named.String()
	if digested, ok := named.(reference.Digested); ok {
		exact = named.Name() + "@" + digested.Digest().String()
	}
	var image runtime.Image
	err := r.call(ctx, r.timeouts.Query, func(ctx context.Context, api *client.Client) error {
		reply, err := api.ImageInspect(ctx, exact)
		if err != nil {
			return err
		}
		image = runtime.Image{ID: reply.ID, SizeBytes: reply.Size, Refs: imageNames(reply.RepoTags, reply.RepoDigests)}
		if reply.Config != nil {
			image.Labels = reply.Config.Labels
		}
		return nil
	})
	if err == nil && !slices.Contains(image.Refs, exact) {
		err = fmt.Errorf("%w: the daemon offers %s, which has other names", runtime.ErrNotFound, image.ID)
	}
	if err != nil {
		return runtime.Image{}, err
	}
	return image, nil
}

// Images lists the local images, those without a name included.
func (r *Runtime) Images(ctx context.Context) ([]runtime.Image, error) {
	var images []runtime.Image
	err := r.call(ctx, r.timeouts.Query, func(ctx context.Context, api *client.Client) error {
		reply, err := api.ImageList(ctx, client.ImageListOptions{})
		for _, s := range reply.Items {
			images = append(images, runtime.Image{
				ID:        s.ID,
				Refs:      imageNames(s.RepoTags, s.RepoDigests),
				SizeBytes: s.Size,
				Labels:    s.Labels,
			})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	return images, nil
}

// imageNames normalises what the daemon abbreviates, and leaves out its "<none>".
func imageNames(lists ...[]string) []string {
	var names []string
	for _, name := range slices.Concat(lists...) {
		if name = imageName(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// imageName is the normalised reference, or empty for the image id that the daemon
// gives where a reference has come to name another image.
func imageName(name string) string {
	named, err := runtime.ParseReference(name)
	if err != nil || strings.HasPrefix(name, "sha256:") {
		return ""
	}
	return named.String()
}
