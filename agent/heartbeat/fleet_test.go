package heartbeat_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/client"
	"github.com/heteroflow/node-agent/agent/heartbeat"
	"github.com/heteroflow/node-agent/protocol"
)

// fleetPlane is a control plane of many nodes that is away for a while.
type fleetPlane struct {
	back time.Time

	mu     sync.Mutex
	second map[int]int // heartbeats by seconds since it is back
}

func (p *fleetPlane) Heartbeat(context.Context, protocol.Heartbeat, bool, time.Duration) (protocol.HeartbeatReply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	since := time.Since(p.back)
	if since < 0 {
		return protocol.HeartbeatReply{}, client.ErrRetryable
	}
	p.second[int(since/time.Second)]++
	return protocol.HeartbeatReply{}, nil
}

func TestAFleetDoesNotBeatInOneSecondAfterAnOutage(t *testing.T) {
	const agents, period, outage = 1000, 5 * time.Second, time.Minute
	synctest.Test(t, func(t *testing.T) {
		p := &fleetPlane{back: time.Now().Add(outage), second: make(map[int]int)}
		ctx, cancel := context.WithTimeout(t.Context(), outage+time.Minute)
		defer cancel()
		var fleet sync.WaitGroup
		for range agents {
			fleet.Go(func() {
				time.Sleep(rand.N(period)) // they were not all started at once
				heartbeat.New(heartbeat.Options{Plane: p, Period: period, Timeout: time.Second, Log: zap.NewNop()}).Run(ctx)
			})
		}
		fleet.Wait()
		const most = agents * int(time.Second) / int(period) * 3 / 2
		for second, beats := range p.second {
			if beats > most {
				t.Errorf("%d heartbeats in second %d, of %d agents each %v", beats, second, agents, period)
			}
		}
		if len(p.second) < 55 {
			t.Errorf("heartbeats came in %d seconds of a minute", len(p.second))
		}
	})
}
