package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/heteroflow/node-agent/runtime"
)

// errNotAManifest: a proxy's or a login page where a manifest should be.
var errNotAManifest = errors.New("the answer is no image manifest")

// reportEvery is how often progress is reported while bytes move.
const reportEvery = 200 * time.Millisecond

// Progress counts what a pull has fetched. Its reports never overlap.
type Progress struct {
	report func(runtime.PullProgress)

	mu       sync.Mutex
	now      runtime.PullProgress
	last     time.Time // of a report
	requests int       // under way at the registry
}

// Idle reports whether nothing is being asked of the registry: what remains is the
// daemon's own work on this host, which moves no bytes.
func (p *Progress) Idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests == 0
}

// Repeat reports what was reported last, to say that the pull still goes on.
func (p *Progress) Repeat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send()
}

func (p *Progress) send() {
	p.last = time.Now()
	if p.report != nil {
		p.report(p.now)
	}
}

func (p *Progress) request(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests += n
}

func (p *Progress) add(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.BytesDone += done
	p.now.BytesTotal += total
	if done > 0 && time.Since(p.last) >= reportEvery {
		p.send()
	}
}

// resolver counts what goes through the resolver it wraps.
type resolver struct {
	remotes.Resolver

	progress *Progress
}

func (r resolver) Resolve(ctx context.Context, ref string) (string, ocispec.Descriptor, error) {
	r.progress.request(1)
	defer r.progress.request(-1)
	name, desc, err := r.Resolver.Resolve(ctx, ref)
	if err == nil && !images.IsManifestType(desc.MediaType) && !images.IsIndexType(desc.MediaType) {
		err = fmt.Errorf("%w but %q: is there a proxy or a login page before the registry?", errNotAManifest, desc.MediaType)
	}
	return name, desc, err
}

func (r resolver) Fetcher(ctx context.Context, ref string) (remotes.Fetcher, error) {
	f, err := r.Resolver.Fetcher(ctx, ref)
	return fetcher{Fetcher: f, progress: r.progress}, err
}

type fetcher struct {
	remotes.Fetcher

	progress *Progress
}

func (f fetcher) Fetch(ctx context.Context, desc ocispec.Descriptor) (io.ReadCloser, error) {
	// An image can name any address for its layers. Ours come from the registry asked.
	desc.URLs = nil
	f.progress.request(1)
	body, err := f.Fetcher.Fetch(ctx, desc)
	if err != nil {
		f.progress.request(-1)
		return nil, err
	}
	f.progress.add(0, desc.Size)
	return &reader{ReadCloser: body, progress: f.progress}, nil
}

// reader counts what is read. It stays a seeker, by which containerd goes on with a
// layer that an earlier pull left half fetched.
type reader struct {
	io.ReadCloser

	progress *Progress
	once     sync.Once
	offset   int64
	counted  int64 // highest offset reached
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.offset += int64(n)
	r.count()
	return n, err
}

func (r *reader) Seek(offset int64, whence int) (int64, error) {
	seeker, ok := r.ReadCloser.(io.Seeker)
	if !ok {
		return 0, errors.New("seek in a layer: the registry's answer cannot be read from the middle")
	}
	at, err := seeker.Seek(offset, whence)
	if err == nil {
		r.offset = at
		r.count()
	}
	return at, err
}

func (r *reader) count() {
	if r.offset > r.counted {
		r.progress.add(r.offset-r.counted, 0)
		r.counted = r.offset
	}
}

func (r *reader) Close() error {
	r.once.Do(func() { r.progress.request(-1) })
	return r.ReadCloser.Close()
}
