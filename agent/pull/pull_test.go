package pull_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/pull"
	"github.com/heteroflow/node-agent/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ref = "registry.example/app:v1"

var cfg = pull.Config{Attempts: 3, Timeout: 5 * time.Minute, InactivityTimeout: time.Minute, TrustNodeCache: true}

// store is a runtime's images: present or fetched by script, one entry per attempt, the
// last for all that follow.
type store struct {
	mu      sync.Mutex
	present bool
	pulls   int
	script  []func(ctx context.Context, req runtime.PullRequest) error
	asked   int
	letIn   []func(ctx context.Context, req runtime.PullRequest) error // the registry's answers to CanPull
}

func (s *store) Image(context.Context, string) (runtime.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.present {
		return runtime.Image{}, nil
	}
	return runtime.Image{}, fmt.Errorf("%w: no such image", runtime.ErrNotFound)
}

func (s *store) CanPull(ctx context.Context, ref string, auth *runtime.RegistryAuth) error {
	s.mu.Lock()
	step := s.letIn[min(s.asked, len(s.letIn)-1)]
	s.asked++
	s.mu.Unlock()
	return step(ctx, runtime.PullRequest{Ref: ref, Auth: auth})
}

func (s *store) Pull(ctx context.Context, req runtime.PullRequest) (runtime.Image, error) {
	s.mu.Lock()
	step := s.script[min(s.pulls, len(s.script)-1)]
	s.pulls++
	s.mu.Unlock()
	return runtime.Image{}, step(ctx, req)
}

func fails(err error) func(context.Context, runtime.PullRequest) error {
	return func(context.Context, runtime.PullRequest) error { return err }
}

// takes moves one GiB a second for d, late in each second: never at the very moment at
// which a time limit ends, when either may come first.
func takes(d time.Duration) func(context.Context, runtime.PullRequest) error {
	return func(ctx context.Context, req runtime.PullRequest) error {
		const late = 750 * time.Millisecond
		total := int64(d / time.Second)
		for i := range total {
			if err := pass(ctx, late); err != nil {
				return err
			}
			req.Progress(runtime.PullProgress{BytesDone: i << 30, BytesTotal: total << 30})
			if err := pass(ctx, time.Second-late); err != nil {
				return err
			}
		}
		return nil
	}
}

// pass lets time pass, while ctx lasts.
func pass(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func hangs(ctx context.Context, _ runtime.PullRequest) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestEnsure(t *testing.T) {
	throttled := &runtime.ThrottledError{RetryAfter: 40 * time.Second, Err: errors.New("429")}
	broken := fmt.Errorf("%w: broken", runtime.ErrRegistryUnavailable)
	cases := map[string]struct {
		store      *store
		want       error
		says       string
		pulls      int
		least, max time.Duration
	}{
		"a local image costs no pull":               {store: &store{present: true}},
		"an image is pulled":                        {store: &store{script: script(takes(5 * time.Second))}, pulls: 1, least: 5 * time.Second, max: 5 * time.Second},
		"a failure is tried again":                  {store: &store{script: script(fails(broken), takes(0))}, pulls: 2, least: time.Second, max: time.Minute},
		"three failures are enough":                 {store: &store{script: script(fails(broken))}, want: runtime.ErrRegistryUnavailable, says: "3 attempts", pulls: 3, max: time.Minute},
		"a missing image is final":                  {store: &store{script: script(fails(runtime.ErrNotFound))}, want: runtime.ErrNotFound, pulls: 1},
		"refused credentials are final":             {store: &store{script: script(fails(runtime.ErrUnauthorized))}, want: runtime.ErrUnauthorized, pulls: 1},
		"an absent daemon uses up nothing":          {store: &store{script: script(fails(runtime.ErrUnavailable))}, want: runtime.ErrUnavailable, pulls: 1},
		"Retry-After is honoured":                   {store: &store{script: script(fails(throttled), takes(0))}, pulls: 2, least: 40 * time.Second, max: time.Minute},
		"a registry that throttles on is named":     {store: &store{script: script(fails(throttled))}, want: runtime.ErrThrottled, says: "registry throttles requests (retry after 40s)", pulls: 3, least: 80 * time.Second, max: 2 * time.Minute},
		"a pull in which nothing moves has stalled": {store: &store{script: script(hangs)}, want: pull.ErrStalled, says: "no data for 1m0s", pulls: 3, least: 3 * time.Minute, max: 4 * time.Minute},
		"a pull that moves may take its whole time": {store: &store{script: script(takes(299 * time.Second))}, pulls: 1, least: 299 * time.Second, max: 5 * time.Minute},
		"and not longer, and says how far it came":  {store: &store{script: script(takes(time.Hour))}, want: context.DeadlineExceeded, says: "299.0 of 3600.0 GiB", pulls: 3, least: 15 * time.Minute, max: 16 * time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := pull.New(cfg, zap.NewNop())
				start := time.Now()
				err := p.Ensure(t.Context(), tc.store, "t1", ref, nil)
				took := time.Since(start)
				p.Wait()
				if errors.Is(tc.want, context.DeadlineExceeded) {
					if err == nil || !strings.Contains(err.Error(), "timeout after 5m0s") || errors.Is(err, runtime.ErrNotFound) {
						t.Errorf("got %v, want a timeout", err)
					}
				} else if !errors.Is(err, tc.want) {
					t.Errorf("got %v, want %v", err, tc.want)
				}
				if err != nil && !strings.Contains(err.Error(), tc.says) {
					t.Errorf("got %v, want it to say %q", err, tc.says)
				}
				if tc.store.pulls != tc.pulls || took < tc.least || took > tc.max {
					t.Errorf("%d pulls in %v, want %d in %v to %v", tc.store.pulls, took, tc.pulls, tc.least, tc.max)
				}
				if len(p.Running()) != 0 {
					t.Errorf("still listed: %v", p.Running())
				}
			})
		})
	}
}

func script(steps ...func(context.Context, runtime.PullRequest) error) []func(context.Context, runtime.PullRequest) error {
	return steps
}

func TestFiveTasksShareOnePullAndOneOfThemCanLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{script: script(takes(60 * time.Second))}
		p := pull.New(cfg, zap.NewNop())
		var wg sync.WaitGroup
		errs := make([]error, 5)
		leave := errors.New("this task was stopped")
		for i := range errs {
			wg.Go(func() {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if i == 0 { // the one that started the pull
					time.AfterFunc(10*time.Second, func() { cancel(leave) })
				} else {
					time.Sleep(time.Second)
				}
				errs[i] = p.Ensure(ctx, s, fmt.Sprint("t", i), ref, nil)
			})
		}
		time.Sleep(5500 * time.Millisecond)
		rows := p.Running()
		if len(rows) != 5 || rows[0].BytesDone != 4<<30 || *rows[0].BytesTotal != 60<<30 {
			t.Errorf("running: %+v", rows)
		}
		wg.Wait()
		p.Wait()
		if !errors.Is(errs[0], leave) {
			t.Errorf("the one that left: %v", errs[0])
		}
		if err := errors.Join(errs[1:]...); err != nil || s.pulls != 1 {
			t.Errorf("%d pulls, the others: %v", s.pulls, err)
		}
	})
}

func TestThePullEndsWithTheLastTaskThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{script: script(hangs)}
		p := pull.New(cfg, zap.NewNop())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		err := p.Ensure(ctx, s, "t1", ref, nil)
		p.Wait()
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 10*time.Second {
			t.Fatalf("got %v after %v", err, time.Since(start))
		}
	})
}

func TestOtherCredentialsAreAnotherPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		seen := make(map[string]int)
		s := &store{script: script(func(ctx context.Context, req runtime.PullRequest) error {
			mu.Lock()
			seen[req.Auth.Username]++
			mu.Unlock()
			return takes(time.Second)(ctx, req)
		})}
		p := pull.New(cfg, zap.NewNop())
		var wg sync.WaitGroup
		for _, user := range []string{"a", "a", "b"} {
			wg.Go(func() {
				if err := p.Ensure(t.Context(), s, "t-"+user, ref, &runtime.RegistryAuth{Username: user, Password: "x"}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		p.Wait()
		if seen["a"] != 1 || seen["b"] != 1 {
			t.Fatalf("pulls by user: %v", seen)
		}
	})
}
