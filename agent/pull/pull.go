// Package pull gets the images of tasks: it uses a local image without asking anybody, or
// only once its registry has confirmed that the task may have it, as the policy says;
// shares one pull between the tasks that want the same image with the same credentials,
// tries again within a budget and gives up a pull in which nothing moves.
//
// Each pull runs in a goroutine of the Puller, which lives until the last task that
// waits for it has left; Wait waits for them all. It keeps no credentials after a pull.
package pull

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/logging"
	"github.com/heteroflow/node-agent/agent/preflight"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// Config bounds a pull.
type Config struct {
	Attempts          int
	Timeout           time.Duration // of one attempt
	InactivityTimeout time.Duration // within an attempt, without a byte
	// TrustNodeCache: a local image is for every task, whoever's credentials fetched it.
	// Otherwise the registry is asked, for each task, whether its own would do.
	TrustNodeCache bool

	// Room tells where the runtime keeps images and what is free there; false: that is not
	// known, and no pull is refused.
	Room func(ctx context.Context) (dir string, free preflight.Space, known bool)
	// UnpackFactor is how many bytes one of a compressed layer is taken to become.
	UnpackFactor float64
}

// Images is the part of a runtime the Puller uses.
type Images interface {
	Image(ctx context.Context, ref string) (runtime.Image, error)
	CanPull(ctx context.Context, ref string, auth *runtime.RegistryAuth) error
	Pull(ctx context.Context, req runtime.PullRequest) (runtime.Image, error)
}

// ErrStalled says that no byte arrived for the inactivity timeout.
var ErrStalled = errors.New("pull stalled")

// retryPause is the first pause between attempts; it doubles.
const retryPause = 2 * time.Second

// Puller pulls the images of tasks.
type Puller struct {
	cfg Config
	log *zap.Logger

	mu      sync.Mutex
	pulls   map[key]*pull
	running sync.WaitGroup
}

// New makes a Puller.
func New(cfg Config, log *zap.Logger) *Puller {
	return &Puller{cfg: cfg, log: log, pulls: make(map[key]*pull)}
}

// key tells pulls apart. Credentials are part of it: a task is never served by what
// another task's credentials are fetching.
type key struct {
	ref  string
	auth [sha256.Size]byte
}

// pull is one pull that tasks share.
type pull struct {
	ref     string
	started time.Time
	cancel  context.CancelFunc
	done    chan struct{} // closed when err is set
	err     error

	// guarded by Puller.mu
	waiting  []string // task ids
	progress runtime.PullProgress
	load     preflight.Load // that it is taken to put on the disk; 0: not known
}

// Ensure returns once the image is present and the task may have it. It fails with the
// class of the last attempt (see runtime.Runtime.Pull), with a *preflight.DiskError, with
// ErrStalled, or with the cause of ctx.
// runtime.ErrUnavailable is returned at once, without using up the budget: the daemon is
// away, which says nothing of the image.
func (p *Puller) Ensure(ctx context.Context, images Images, taskID, ref string, auth *runtime.RegistryAuth) error {
	named, err := runtime.ParseReference(ref)
	if err != nil {
		return err
	}
	ref = named.String() // tasks that name one image differently share its pull
	_, err = images.Image(ctx, ref)
	if err == nil {
		return p.confirm(ctx, images, taskID, ref, auth)
	}
	if !errors.Is(err, runtime.ErrNotFound) {
		return err
	}
	shared, leave := p.join(images, taskID, ref, auth) //nolint:contextcheck // a shared pull outlives the task that started it
	defer leave()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-shared.done:
		return shared.err
	}
}

// Running lists the pulls under way, one row for each task that waits.
func (p *Puller) Running() []protocol.Pull {
	p.mu.Lock()
	defer p.mu.Unlock()
	var rows []protocol.Pull
	for _, pull := range p.pulls {
		for _, task := range pull.waiting {
			row := protocol.Pull{
				Image: pull.ref, Purpose: protocol.PullForTask, TaskID: task,
				BytesDone: pull.progress.BytesDone, StartedAt: pull.started,
			}
			if total := pull.progress.BytesTotal; total > 0 {
				row.BytesTotal = &total
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// Wait waits for pulls that nobody waits for any more to end.
func (p *Puller) Wait() { p.running.Wait() }

// join enters the task into the pull of this image, starting it if there is none.
func (p *Puller) join(images Images, taskID, ref string, auth *runtime.RegistryAuth) (shared *pull, leave func()) {
	k := key{ref: ref, auth: fingerprint(auth)}
	p.mu.Lock()
	defer p.mu.Unlock()
	shared = p.pulls[k]
	if shared == nil {
		// Its life is that of the tasks waiting for it, not of the first one's context.
		ctx, cancel := context.WithCancel(context.Background())
		shared = &pull{ref: ref, started: time.Now(), cancel: cancel, done: make(chan struct{})}
		p.pulls[k] = shared
		p.running.Go(func() {
			shared.err = p.attempts(ctx, images, shared, auth)
			p.forget(k, shared)
			close(shared.done)
		})
	}
	shared.waiting = append(shared.waiting, taskID)
	return shared, func() { p.leave(k, shared, taskID) }
}

func (p *Puller) leave(k key, shared *pull, taskID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(shared.waiting, taskID); i >= 0 {
		shared.waiting = slices.Delete(shared.waiting, i, i+1)
	}
	if len(shared.waiting) == 0 {
		shared.cancel()
		if p.pulls[k] == shared {
			delete(p.pulls, k) // the next task starts afresh instead of joining a dying pull
		}
	}
}

func (p *Puller) forget(k key, shared *pull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pulls[k] == shared {
		delete(p.pulls, k)
	}
}

func (p *Puller) attempts(ctx context.Context, images Images, shared *pull, auth *runtime.RegistryAuth) error {
	log := p.log.With(logging.Image(shared.ref))
	log.Info("pulling image")
	err := p.persist(ctx, log, "image pull", func(ctx context.Context) error { return p.attempt(ctx, images, shared, auth) })
	if err == nil {
		log.Info("image pulled", logging.Took(time.Since(shared.started)))
	}
	return err
}

// persist tries something at a registry until it is done, the attempts are used up, or
// another try cannot change what came of it.
func (p *Puller) persist(ctx context.Context, log *zap.Logger, what string, try func(ctx context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := try(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case final(err) || errors.Is(err, runtime.ErrUnavailable):
			return err
		case attempt >= p.cfg.Attempts:
			return fmt.Errorf("%s: gave up after %d attempts: %w", what, attempt, err)
		}
		pause := p.pause(attempt, err)
		log.Warn(what+" failed, trying again", logging.Attempt(attempt), zap.Duration("pause", pause), zap.Error(err))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// final tells errors that another try cannot change.
func final(err error) bool {
	if _, ok := errors.AsType[*preflight.DiskError](err); ok {
		return true
	}
	return errors.Is(err, runtime.ErrNotFound) || errors.Is(err, runtime.ErrUnauthorized) || errors.Is(err, runtime.ErrInvalid)
}

// pause honours what the registry asked for, within the time an attempt may take.
func (p *Puller) pause(attempt int, err error) time.Duration {
	pause := retryPause << min(attempt-1, 4)
	if throttled, ok := errors.AsType[*runtime.ThrottledError](err); ok {
		pause = max(pause, throttled.RetryAfter)
	}
	return min(pause, p.cfg.Timeout)
}

// attempt is one try, ended by its time limit or when no byte has come for too long.
func (p *Puller) attempt(ctx context.Context, images Images, shared *pull, auth *runtime.RegistryAuth) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.cfg.Timeout, fmt.Errorf("timeout after %v", p.cfg.Timeout))
	defer cancel()
	ctx, stall := context.WithCancelCause(ctx)
	defer stall(nil)
	idle := time.AfterFunc(p.cfg.InactivityTimeout, func() {
		stall(fmt.Errorf("%w: no data for %v", ErrStalled, p.cfg.InactivityTimeout))
	})
	defer idle.Stop()
	_, err := images.Pull(ctx, runtime.PullRequest{
		Ref: shared.ref, Auth: auth,
		Admit: func(fetch runtime.Fetch) error { return p.admit(ctx, shared, fetch) },
		Progress: func(progress runtime.PullProgress) {
			idle.Reset(p.cfg.InactivityTimeout)
			p.mu.Lock()
			defer p.mu.Unlock()
			shared.progress = progress
		},
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("pull %s: %w, %s", shared.ref, context.Cause(ctx), p.reached(shared))
	}
	return err
}

// reached tells how far the pull came, for the message of one that ran out of time.
func (p *Puller) reached(shared *pull) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	const gib = 1 << 30
	if total := shared.progress.BytesTotal; total > 0 {
		return fmt.Sprintf("at %.1f of %.1f GiB", float64(shared.progress.BytesDone)/gib, float64(total)/gib)
	}
	return "before its size was known"
}

func fingerprint(auth *runtime.RegistryAuth) [sha256.Size]byte {
	if auth == nil {
		return [sha256.Size]byte{}
	}
	return sha256.Sum256([]byte(auth.Username + "\x00" + auth.Password + "\x00" + auth.IdentityToken))
}
