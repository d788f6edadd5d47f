// Package heartbeat sends the node's report once a period and hands the control plane's
// answer on. What stands in the report comes from its sources, which answer at once with
// what they know: a heartbeat waits for nothing.
//
// A heartbeat that failed is not repeated; the next carries fresh data. Run is one loop in
// its caller's goroutine.
package heartbeat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/client"
	"github.com/heteroflow/node-agent/agent/loop"
	"github.com/heteroflow/node-agent/agent/wallclock"
	"github.com/heteroflow/node-agent/protocol"
)

// Plane is the part of the control plane's client a heart uses.
type Plane interface {
	Heartbeat(ctx context.Context, hb protocol.Heartbeat, gzip bool, timeout time.Duration) (protocol.HeartbeatReply, error)
}

// Source fills in its part of a heartbeat.
type Source func(ctx context.Context, hb *protocol.Heartbeat)

// Options make a Heart.
type Options struct {
	Plane    Plane
	Template protocol.Heartbeat // who the node is: ids and version
	Sources  []Source
	Period   time.Duration
	Timeout  time.Duration
	// OnReply, if set, takes each answer; an answer without a feature takes it back.
	OnReply func(protocol.HeartbeatReply)
	// OnBeat, if set, takes each heartbeat in full and what came of it.
	OnBeat func(hb protocol.Heartbeat, err error)
	Log    *zap.Logger
}

// Heart beats for one start of the agent.
type Heart struct {
	opts Options
	kick loop.Kicker

	mu       sync.Mutex // one heartbeat at a time
	sequence int64
	features protocol.Features
	acked    acked
	failures int
}

// acked is what the server holds of the parts that may be left out while unchanged.
type acked struct {
	gpus   string // digest of the inventory; empty: not acknowledged
	models string
}

// New makes a heart that has not beaten yet.
func New(opts Options) *Heart { return &Heart{opts: opts, kick: loop.NewKicker()} }

// Kick beats at once: something changed that the control plane waits to hear.
func (h *Heart) Kick() { h.kick.Kick() }

// Run beats until ctx ends.
func (h *Heart) Run(ctx context.Context) {
	loop.Loop{
		Period: func() time.Duration { return h.opts.Period },
		Do:     func(ctx context.Context) error { return h.beat(ctx, protocol.NodeOnline) },
		Pause:  client.Pause,
		Kick:   h.kick,
		Prompt: true,
	}.Run(ctx)
}

// Farewell sends the last heartbeat of an orderly stop. Call it after Run has returned.
func (h *Heart) Farewell(ctx context.Context) error { return h.beat(ctx, protocol.NodeOffline) }

func (h *Heart) beat(ctx context.Context, state protocol.NodeState) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	hb := h.opts.Template
	h.sequence++
	hb.Sequence, hb.SentAt, hb.State, hb.Protocol = h.sequence, wallclock.Now().UTC(), state, protocol.Version
	for _, fill := range h.opts.Sources {
		fill(ctx, &hb)
	}
	if state == protocol.NodeOffline {
		hb.State = state // whatever a source made of it
	}
	whole := hb
	full, err := h.leaveOut(&hb)
	if err != nil {
		return err
	}
	reply, err := h.opts.Plane.Heartbeat(ctx, hb, h.features.Gzip, h.opts.Timeout)
	h.note(ctx, err)
	if h.opts.OnBeat != nil {
		h.opts.OnBeat(whole, err)
	}
	if err != nil {
		// The server may have been replaced by one that knows less.
		h.features, h.acked = protocol.Features{}, acked{}
		return err
	}
	h.features, h.acked = reply.Features, full
	if reply.NeedFull {
		h.acked = acked{}
	}
	if h.opts.OnReply != nil {
		h.opts.OnReply(reply)
	}
	return nil
}

// leaveOut takes out of the heartbeat what the server has acknowledged and returns what it
// holds once this heartbeat is acknowledged.
func (h *Heart) leaveOut(hb *protocol.Heartbeat) (acked, error) {
	var full acked
	var err error
	if hb.CachedModels != nil || hb.DiscoveredModels != nil {
		if full.models, err = digest([2][]protocol.Model{hb.CachedModels, hb.DiscoveredModels}); err != nil {
			return full, err
		}
		hb.ModelsDigest = full.models
	}
	if hb.GPUs != nil {
		if full.gpus, err = digest(hb.GPUs); err != nil {
			return full, err
		}
	}
	if !h.features.DeltaHeartbeat {
		return full, nil
	}
	if full.gpus != "" && full.gpus == h.acked.gpus {
		hb.GPUs = nil
	}
	if full.models != "" && full.models == h.acked.models {
		hb.CachedModels, hb.DiscoveredModels, hb.ModelsUnchanged = nil, nil, true
	}
	return full, nil
}

func digest(v any) (string, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("digest part of a heartbeat: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// note logs when heartbeats begin to fail and when they arrive again, not each of them.
func (h *Heart) note(ctx context.Context, err error) {
	switch {
	case err == nil && h.failures > 0:
		h.opts.Log.Info("heartbeats arrive again", zap.Int("missed", h.failures))
		h.failures = 0
	case err == nil:
		if h.sequence == 1 {
			h.opts.Log.Info("first heartbeat acknowledged")
		}
	case ctx.Err() != nil:
	default:
		h.failures++
		if h.failures == 1 && !errors.Is(err, client.ErrUnauthorized) { // that one is logged by the client
			h.opts.Log.Warn("heartbeat failed; the next carries fresh data", zap.Error(err))
		}
	}
}
