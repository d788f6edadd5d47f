package pull

import (
	"context"
	"fmt"

	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/runtime"
)

// confirm decides whether a task may have an image that is on the node already. Who fetched
// it, and with whose credentials, is not known: it may be private to another task.
//
// What a registry confirms is what a pull would get; that the local image is an older one
// of the same name is no concern. Nothing is remembered: the next task asks for itself.
func (p *Puller) confirm(ctx context.Context, images Images, taskID, ref string, auth *runtime.RegistryAuth) error {
	log := p.log.With(logging.TaskID(taskID), logging.Image(ref))
	if p.cfg.TrustNodeCache {
		log.Info("image is on the node; its registry is not asked (pull.trust_node_cache)")
		return nil
	}
	err := p.persist(ctx, log, "asking the registry about an image", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.InactivityTimeout, fmt.Errorf("no answer for %v", p.cfg.InactivityTimeout))
		defer cancel()
		err := images.CanPull(ctx, ref, auth)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("%w: %w", runtime.ErrRegistryUnavailable, context.Cause(ctx))
		}
		return err
	})
	switch {
	case err == nil:
		log.Info("image is on the node, and its registry confirms that the task may have it")
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("image %s is on the node, but its registry does not confirm that this task may have it (pull.trust_node_cache is false): %w", ref, err)
	}
}
