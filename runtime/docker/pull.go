package docker

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/runtime"
)

// Pull has the daemon fetch an image. The credentials travel in a header of this one
// request, and in those to the registry that ask for the image's size. Progress is also called, with the same numbers, while layers are unpacked.
//
// The daemon hides a registry's Retry-After header: ThrottledError.RetryAfter is 0
// unless the registry says it in its message as well.
func (r *Runtime) Pull(ctx context.Context, req runtime.PullRequest) (runtime.Image, error) {
	named, err := runtime.ParseReference(req.Ref)
	if err != nil {
		return runtime.Image{}, err
	}
	image, err := r.pull(ctx, named, req)
	if err != nil {
		return runtime.Image{}, fmt.Errorf("pull image %s: %w", named, err)
	}
	return image, nil
}

func (r *Runtime) pull(ctx context.Context, named reference.Named, req runtime.PullRequest) (runtime.Image, error) {
	header, err := authHeader(req.Auth, named)
	if err != nil {
		return runtime.Image{}, err
	}
	if req.Admit != nil {
		if err := req.Admit(r.fetch(ctx, named, req.Auth)); err != nil {
			return runtime.Image{}, err
		}
	}
	err = r.call(ctx, 0, func(ctx context.Context, api *client.Client) error {
		reply, err := api.ImagePull(ctx, named.String(), client.ImagePullOptions{RegistryAuth: header})
		if err != nil {
			return classify(err, pulling)
		}
		return follow(reply.JSONMessages(ctx), req.Progress)
	})
	if err != nil {
		return runtime.Image{}, err
	}
	image, err := r.image(ctx, named)
	if errors.Is(err, runtime.ErrNotFound) {
		// The registry has it, as we have just seen: whoever pruned it here, the
		// next pull may bring it back.
		err = fmt.Errorf("%w: the image was removed as soon as it had been pulled: %s", runtime.ErrUnavailable, err.Error())
	}
	return image, err
}

// CanPull has the daemon ask the registry for the image's manifest.
func (r *Runtime) CanPull(ctx context.Context, ref string, auth *runtime.RegistryAuth) error {
	named, err := runtime.ParseReference(ref)
	if err != nil {
		return err
	}
	header, err := authHeader(auth, named)
	if err != nil {
		return err
	}
	err = r.call(ctx, 0, func(ctx context.Context, api *client.Client) error {
		_, err := api.DistributionInspect(ctx, named.String(), client.DistributionInspectOptions{EncodedRegistryAuth: header})
		if err != nil {
			return classify(err, pulling)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("ask the registry for image %s: %w", named, err)
	}
	return nil
}

// authHeader is empty for an anonymous pull.
func authHeader(auth *runtime.RegistryAuth, named reference.Named) (string, error) {
	if auth == nil {
		return "", nil
	}
	header, err := authconfig.Encode(registry.AuthConfig{
		Username:      auth.Username,
		Password:      auth.Password,
		IdentityToken: auth.IdentityToken,
		ServerAddress: reference.Domain(named),
	})
	if err != nil {
		return "", fmt.Errorf("%w: encode registry credentials", runtime.ErrInvalid) // err may quote them
	}
	return header, nil
}

// follow reads the messages of a pull to their end and returns the error among them.
func follow(messages iter.Seq2[jsonstream.Message, error], report func(runtime.PullProgress)) error {
	layers := layerProgress{}
	for message, err := range messages {
		if err != nil {
			return fmt.Errorf("%w: the daemon's report of the pull broke off: %w", runtime.ErrUnavailable, err)
		}
		if message.Error != nil {
			return classify(message.Error, pulling)
		}
		if layers.update(message) && report != nil {
			report(layers.sum())
		}
	}
	return nil
}

// layerProgress is how far each layer's download has come, by the layer's short id.
type layerProgress map[string]runtime.PullProgress

// update takes in one message and reports whether it is a sign of life.
func (l layerProgress) update(m jsonstream.Message) bool {
	layer := l[m.ID]
	switch m.Status {
	case "Downloading":
		if m.Progress == nil {
			return false
		}
		// A download that is resumed or retried starts over: keep the best.
		layer.BytesDone = max(layer.BytesDone, m.Progress.Current)
		layer.BytesTotal = max(layer.BytesTotal, m.Progress.Total)
	case "Download complete":
		layer.BytesDone = layer.BytesTotal
	case "Verifying Checksum", "Extracting", "Pull complete":
		return true
	default:
		return false
	}
	l[m.ID] = layer
	return true
}

func (l layerProgress) sum() (total runtime.PullProgress) {
	for _, layer := range l {
		total.BytesDone += layer.BytesDone
		total.BytesTotal += layer.BytesTotal
	}
	return total
}
