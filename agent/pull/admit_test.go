package pull_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/preflight"
	"github.com/heteroflow/node-agent/agent/pull"
	"github.com/heteroflow/node-agent/runtime"
)

const gib = int64(1) << 30

// roomy is a node on whose disk so much is free.
func roomy(bytes int64) pull.Config {
	c := cfg
	c.UnpackFactor = 2
	c.Room = func(context.Context) (string, preflight.Space, bool) {
		return "/var/lib/images", preflight.Space{Bytes: bytes}, true
	}
	return c
}

// asks is a pull of so many bytes that asks whether it may, and then goes on as next does.
func asks(packed int64, next func(context.Context, runtime.PullRequest) error) func(context.Context, runtime.PullRequest) error {
	return func(ctx context.Context, req runtime.PullRequest) error {
		if err := req.Admit(runtime.Fetch{Layers: 1, PackedBytes: packed}); err != nil {
			return err
		}
		return next(ctx, req)
	}
}

func TestAPullThatDoesNotFitIsRefusedOnceForAllWhoWaitForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{script: script(asks(gib, takes(0)))}
		p := pull.New(roomy(3*gib-1), zap.NewNop())
		var waiting sync.WaitGroup
		for _, task := range []string{"t1", "t2"} {
			waiting.Go(func() {
				err := p.Ensure(t.Context(), s, task, ref, nil)
				if _, ok := errors.AsType[*preflight.DiskError](err); !ok {
					t.Errorf("%s: got %v, want a DiskError", task, err)
				}
			})
		}
		waiting.Wait()
		p.Wait()
		if s.pulls > 2 { // the second may have come after the first was refused
			t.Errorf("%d pulls: a refusal is tried again", s.pulls)
		}
	})
}

func TestPullsUnderWayCountWithWhatIsStillToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const other = "registry.example/other:v1"
		first := &store{script: script(asks(gib, takes(100*time.Second)))} // 3 GiB in all
		p := pull.New(roomy(4*gib), zap.NewNop())
		var done sync.WaitGroup
		done.Go(func() {
			if err := p.Ensure(t.Context(), first, "t1", ref, nil); err != nil {
				t.Error(err)
			}
		})
		second := func() error {
			return p.Ensure(t.Context(), &store{script: script(asks(gib, takes(0)))}, "t2", other, nil)
		}
		time.Sleep(5500 * time.Millisecond)
		if err := second(); err == nil || !strings.Contains(err.Error(), "other pulls under way") {
			t.Errorf("beside one that has just begun: got %v, want a refusal", err)
		}
		time.Sleep(80 * time.Second)
		if err := second(); err != nil {
			t.Errorf("beside one that is nearly done: %v", err)
		}
		done.Wait()
		p.Wait()
		if err := second(); err != nil {
			t.Errorf("alone: %v", err)
		}
	})
}
