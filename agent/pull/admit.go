package pull

import (
	"context"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/preflight"
	"github.com/heteroflow/node-agent/runtime"
)

// admit refuses, with a *preflight.DiskError, a pull that would fill the disk, alone or
// with the others under way. What is not known refuses nothing.
func (p *Puller) admit(ctx context.Context, shared *pull, fetch runtime.Fetch) error {
	log := p.log.With(logging.Image(shared.ref))
	if fetch.Unknown != nil {
		log.Info("size of the image not known before its pull; the disk is not checked", zap.Error(fetch.Unknown))
		return nil
	}
	dir, free, known := p.cfg.Room(ctx)
	if !known {
		log.Info("what is free where images are kept is not known; the disk is not checked", zap.String("path", dir))
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	forecast := preflight.DiskError{
		Image: shared.ref, Dir: dir, Fetch: fetch, Free: free,
		Need: preflight.LoadOf(fetch, p.cfg.UnpackFactor), Others: p.others(shared),
	}
	if err := forecast.Check(); err != nil {
		return err
	}
	shared.load = forecast.Need
	return nil
}

// others is what the other pulls under way are still going to put on the disk. p.mu is held.
func (p *Puller) others(shared *pull) preflight.Load {
	var sum preflight.Load
	for _, other := range p.pulls {
		if other != shared {
			sum = sum.Plus(other.load.Left(other.progress.BytesDone, other.progress.BytesTotal))
		}
	}
	return sum
}
