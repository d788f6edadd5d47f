package executor

import (
	"context"
	"errors"
	"fmt"

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
	if a := credentials; a != nil {
		auth = &runtime.RegistryAuth{Username: a.Username, Password: a.Password.Reveal(), IdentityToken: a.IdentityToken.Reveal()}
	}
	return t.persist(ctx, "get the image", func(ctx context.Context) error {
		return t.e.Puller.Ensure(ctx, rt, t.id, t.spec.Image, auth)
	})
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
