package pull_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/pull"
	"github.com/heteroflow/node-agent/runtime"
)

// only lets in who has the password.
func only(password string) func(context.Context, runtime.PullRequest) error {
	return func(_ context.Context, req runtime.PullRequest) error {
		if req.Auth == nil || req.Auth.Password != password {
			return runtime.ErrUnauthorized
		}
		return nil
	}
}

func TestAnImageOnTheNodeIsForThoseWhoCouldPullIt(t *testing.T) {
	down := fmt.Errorf("%w: connection refused", runtime.ErrRegistryUnavailable)
	throttled := &runtime.ThrottledError{RetryAfter: 40 * time.Second, Err: errors.New("429")}
	own := &runtime.RegistryAuth{Username: "u", Password: "own"}
	cases := map[string]struct {
		letIn      []func(context.Context, runtime.PullRequest) error
		auth       *runtime.RegistryAuth
		want       error
		says       string
		asked      int
		least, max time.Duration
	}{
		"with the credentials that the registry wants": {letIn: script(only("own")), auth: own, asked: 1},
		"not with others":                             {letIn: script(only("others")), auth: own, want: runtime.ErrUnauthorized, says: "is on the node", asked: 1},
		"not without any":                             {letIn: script(only("others")), want: runtime.ErrUnauthorized, says: "trust_node_cache", asked: 1},
		"without any where none are wanted":           {letIn: script(fails(nil)), asked: 1},
		"not when the registry does not have it":      {letIn: script(fails(runtime.ErrNotFound)), want: runtime.ErrNotFound, asked: 1},
		"when the registry is back in time":           {letIn: script(fails(down), fails(nil)), asked: 2, least: time.Second, max: time.Minute},
		"not when it stays away, and the reason told": {letIn: script(fails(down)), want: runtime.ErrRegistryUnavailable, says: "connection refused", asked: 3, max: time.Minute},
		"not when it never answers":                   {letIn: script(hangs), want: runtime.ErrRegistryUnavailable, says: "no answer for 1m0s", asked: 3, least: 3 * time.Minute, max: 4 * time.Minute},
		"once the registry is ready for questions":    {letIn: script(fails(throttled), fails(nil)), asked: 2, least: 40 * time.Second, max: time.Minute},
		"later, when the daemon that asks is away":    {letIn: script(fails(runtime.ErrUnavailable)), want: runtime.ErrUnavailable, asked: 1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tenants := cfg
				tenants.TrustNodeCache = false
				p := pull.New(tenants, zap.NewNop())
				s := &store{present: true, letIn: tc.letIn}
				start := time.Now()
				err := p.Ensure(t.Context(), s, "t1", ref, tc.auth)
				took := time.Since(start)
				if !errors.Is(err, tc.want) || err != nil && !strings.Contains(err.Error(), tc.says) {
					t.Errorf("got %v, want %v that says %q", err, tc.want, tc.says)
				}
				if s.asked != tc.asked || s.pulls != 0 || took < tc.least || took > tc.max {
					t.Errorf("asked %d times, %d pulls, in %v; want asked %d times in %v to %v", s.asked, s.pulls, took, tc.asked, tc.least, tc.max)
				}
			})
		})
	}
}

func TestNoAnswerOfARegistryIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenants := cfg
		tenants.TrustNodeCache = false
		p := pull.New(tenants, zap.NewNop())
		s := &store{present: true, letIn: script(only("own"))}
		own := &runtime.RegistryAuth{Password: "own"}
		for i, step := range []struct {
			auth *runtime.RegistryAuth
			want error
		}{{own, nil}, {nil, runtime.ErrUnauthorized}, {own, nil}, {&runtime.RegistryAuth{}, runtime.ErrUnauthorized}} {
			if err := p.Ensure(t.Context(), s, fmt.Sprint(i), ref, step.auth); !errors.Is(err, step.want) {
				t.Errorf("task %d: got %v, want %v", i, err, step.want)
			}
		}
		if s.asked != 4 {
			t.Errorf("asked %d times", s.asked)
		}
	})
}

func TestATaskThatIsNotWantedDoesNotWaitForARegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tenants := cfg
		tenants.TrustNodeCache = false
		p := pull.New(tenants, zap.NewNop())
		ctx, cancel := context.WithCancelCause(t.Context())
		unwanted := errors.New("unwanted")
		time.AfterFunc(time.Second, func() { cancel(unwanted) })
		err := p.Ensure(ctx, &store{present: true, letIn: script(hangs)}, "t1", ref, nil)
		if !errors.Is(err, unwanted) {
			t.Errorf("got %v", err)
		}
	})
}
