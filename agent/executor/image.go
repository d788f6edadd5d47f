package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// ensureImage gets the task its image with its own credentials. When a registry refuses
// them they are read anew once: credentials expire while a task waits to be claimed.
func (t *task) ensureImage(ctx context.Context, rt runtime.Runtime) error {
	err := t.getImage(ctx, rt, t.spec.RegistryAuth)
	if errors.Is(err, runtime.ErrUnauthorized) {
		fresh, errFresh := t.freshCredentials(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errFresh != nil:
			err = fmt.Errorf("%w; and the task's credentials could not be read anew: %w", err, errFresh)
		case fresh != nil:
			t.log.Info("registry refuses the credentials; trying once more with those the task has now", logging.Image(t.spec.Image))
			err = t.getImage(ctx, rt, fresh)
		}
	}
	switch {
	case err == nil, ctx.Err() != nil:
		return err
	case errors.Is(err, runtime.ErrNotFound):
		return fail(protocol.ReasonImageNotFound, err)
	case errors.Is(err, runtime.ErrUnauthorized):
		return fail(protocol.ReasonRegistryDenied, err)
	case errors.Is(err, runtime.ErrInvalid):
		return fail(protocol.ReasonInvalidSpec, err)
	default:
		return fail(protocol.ReasonImagePullFailed, err)
	}
}

func (t *task) getImage(ctx context.Context, rt runtime.Runtime, credentials *protocol.RegistryAuth) error {
	var auth *runtime.RegistryAuth
	a, foreign := credentials, credentials != nil && !isFor(credentials.Server, t.spec.Image)
	switch {
	case foreign:
		t.log.Warn("credentials not used: they are for another registry than the image's", logging.Image(t.spec.Image), zap.String("server", a.Server))
	case a != nil:
		auth = &runtime.RegistryAuth{Username: a.Username, Password: a.Password.Reveal(), IdentityToken: a.IdentityToken.Reveal()}
	}
	err := t.persist(ctx, "get the image", func(ctx context.Context) error {
		return t.e.Puller.Ensure(ctx, rt, t.id, t.spec.Image, auth)
	})
	if foreign && errors.Is(err, runtime.ErrUnauthorized) {
		err = fmt.Errorf("%w; registry_auth is for %q, not for this image's registry, and was not used", err, a.Server)
	}
	return err
}

// hub are the names of Docker Hub, the second of which Docker's own files of credentials have.
var hub = []string{"docker.io", "index.docker.io", "registry-1.docker.io"}

// isFor tells whether credentials for a server may go to the image's registry. Those for no
// server in particular may; a server may be written as a URL.
func isFor(server, image string) bool {
	named, err := runtime.ParseReference(image)
	if server == "" || err != nil { // without a reference there is no pull
		return true
	}
	_, host, isURL := strings.Cut(server, "://")
	if !isURL {
		host = server
	}
	host, _, _ = strings.Cut(host, "/")
	registry := reference.Domain(named)
	return strings.EqualFold(host, registry) || registry == hub[0] && slices.Contains(hub, strings.ToLower(host))
}

// freshCredentials reads the task again for its credentials; nil: it has no others than
// those that were refused.
func (t *task) freshCredentials(ctx context.Context) (*protocol.RegistryAuth, error) {
	stored, err := t.e.Plane.Task(ctx, t.id)
	if err != nil {
		return nil, err
	}
	t.observe(viewOf(stored, t.e.NodeID, t.generation))
	used, now := t.spec.RegistryAuth, stored.RegistryAuth
	if stored.Generation != t.generation || now == nil || used != nil && *used == *now {
		t.log.Warn("registry refuses the task's credentials, and it has no others", logging.Image(t.spec.Image), zap.Bool("has_credentials", now != nil))
		return nil, nil
	}
	return now, nil
}
