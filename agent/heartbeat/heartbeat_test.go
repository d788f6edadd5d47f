package heartbeat_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/client"
	"github.com/heteroflow/node-agent/agent/config"
	"github.com/heteroflow/node-agent/agent/heartbeat"
	"github.com/heteroflow/node-agent/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// plane keeps the heartbeats it gets and answers with reply.
type plane struct {
	got   []protocol.Heartbeat
	gzip  []bool
	at    []time.Time
	reply func(n int) (protocol.HeartbeatReply, error)
}

func (p *plane) Heartbeat(_ context.Context, hb protocol.Heartbeat, gzip bool, _ time.Duration) (protocol.HeartbeatReply, error) {
	p.got, p.gzip, p.at = append(p.got, hb), append(p.gzip, gzip), append(p.at, time.Now())
	return p.reply(len(p.got))
}

// beat lets a heart beat for the given time against the plane.
func beat(t *testing.T, p *plane, lasting time.Duration, sources ...heartbeat.Source) (h *heartbeat.Heart, replies int) {
	t.Helper()
	h = heartbeat.New(heartbeat.Options{
		Plane: p, Template: protocol.Heartbeat{NodeID: "n1"}, Sources: sources,
		Period: 5 * time.Second, Timeout: 10 * time.Second, Log: zap.NewNop(),
		OnReply: func(protocol.HeartbeatReply) { replies++ },
	})
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	h.Run(ctx)
	return h, replies
}

func gpus(_ context.Context, hb *protocol.Heartbeat) {
	hb.GPUs = []protocol.Device{{UUID: "GPU-1"}}
	hb.CachedModels = []protocol.Model{{Name: "m"}}
}

func TestAHeartBeatsEveryFiveSecondsAndSaysFarewell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plane{reply: func(int) (protocol.HeartbeatReply, error) { return protocol.HeartbeatReply{}, nil }}
		h, replies := beat(t, p, time.Minute)
		if n := len(p.got); n < 11 || n > 14 || replies != n {
			t.Fatalf("%d heartbeats, %d replies in a minute", n, replies)
		}
		if err := h.Farewell(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, hb := range p.got {
			want := protocol.NodeOnline
			if i == len(p.got)-1 {
				want = protocol.NodeOffline
			}
			if hb.State != want || hb.Sequence != int64(i+1) || hb.NodeID != "n1" || hb.SentAt.IsZero() {
				t.Errorf("heartbeat %d: %+v", i, hb)
			}
		}
	})
}

func TestWithoutTheFeatureEveryHeartbeatIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plane{reply: func(int) (protocol.HeartbeatReply, error) { return protocol.HeartbeatReply{}, nil }}
		beat(t, p, 20*time.Second, gpus)
		for i, hb := range p.got {
			if hb.GPUs == nil || hb.CachedModels == nil || hb.ModelsUnchanged || p.gzip[i] {
				t.Errorf("heartbeat %d: %+v", i, hb)
			}
		}
	})
}

func TestWithTheFeatureWhatWasAcknowledgedIsLeftOutUntilItChangesOrIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plane{}
		p.reply = func(n int) (protocol.HeartbeatReply, error) {
			if n == 6 {
				return protocol.HeartbeatReply{}, errors.New("no answer")
			}
			return protocol.HeartbeatReply{Features: protocol.Features{DeltaHeartbeat: true, Gzip: true}, NeedFull: n == 2}, nil
		}
		beat(t, p, 50*time.Second, gpus, func(_ context.Context, hb *protocol.Heartbeat) {
			if hb.Sequence >= 5 {
				hb.GPUs = append(hb.GPUs, protocol.Device{UUID: "GPU-2"})
			}
		})
		full := map[int]string{1: "the first", 3: "asked for", 5: "changed", 7: "the one before failed"}
		for n := 1; n <= 8; n++ {
			hb := p.got[n-1]
			if why := full[n]; (hb.GPUs != nil) != (why != "") {
				t.Errorf("heartbeat %d carries the inventory: %v; %s", n, hb.GPUs != nil, why)
			}
			if hb.ModelsUnchanged == (hb.CachedModels != nil) || hb.ModelsDigest == "" {
				t.Errorf("heartbeat %d: unchanged %v, models %v, digest %q", n, hb.ModelsUnchanged, hb.CachedModels, hb.ModelsDigest)
			}
			if want := n != 1 && n != 7; p.gzip[n-1] != want {
				t.Errorf("heartbeat %d compressed: %v", n, p.gzip[n-1])
			}
		}
	})
}

func TestARefusedKeySlowsTheHeartDownUpToAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &plane{reply: func(int) (protocol.HeartbeatReply, error) {
			return protocol.HeartbeatReply{}, &client.Error{Op: "x"}
		}}
		beat(t, p, time.Minute)
		if len(p.got) < 11 {
			t.Fatalf("an ordinary failure slowed the heart: %d beats", len(p.got))
		}
		p = &plane{reply: func(int) (protocol.HeartbeatReply, error) { return protocol.HeartbeatReply{}, client.ErrUnauthorized }}
		beat(t, p, 10*time.Minute)
		if n := len(p.got); n < 10 || n > 18 {
			t.Fatalf("%d beats in ten minutes", n)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	sink := &sink{}
	c, err := client.New(client.Options{
		BaseURL: "http://plane.example", NodeID: "n1", Log: zap.NewNop(),
		ReadKey:    func() (config.Secret, error) { return "0123456789abcdef", nil },
		HTTPClient: &http.Client{Transport: sink},
	})
	if err != nil {
		b.Fatal(err)
	}
	h := heartbeat.New(heartbeat.Options{
		Plane: c, Period: time.Second, Timeout: time.Second, Log: zap.NewNop(),
		Sources: []heartbeat.Source{func(_ context.Context, hb *protocol.Heartbeat) {
			for i := range 8 {
				hb.GPUs = append(hb.GPUs, protocol.Device{Index: i, UUID: "GPU-00000000-0000-0000-0000-000000000000", Model: "H200", BusID: "0000:c1:00.0"})
				hb.GPUStats = append(hb.GPUStats, protocol.DeviceStats{Index: i, UUID: "GPU-00000000-0000-0000-0000-000000000000", TemperatureCelsius: new(41.5)})
			}
		}},
	})
	b.ReportAllocs()
	for b.Loop() {
		if err := h.Farewell(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(sink.size)
}

// sink takes requests without a network and answers with an empty object.
type sink struct{ size int64 }

func (s *sink) RoundTrip(req *http.Request) (*http.Response, error) {
	n, err := io.Copy(io.Discard, req.Body)
	s.size = n
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, err
}
