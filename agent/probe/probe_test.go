package probe_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/agent/probe"
	"github.com/heteroflow/node-agent/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// observe probes the service until the given states have been reported, in this order
// and without others between, and returns the last report.
func observe(t *testing.T, check protocol.HealthCheck, addr netip.AddrPort, want ...protocol.HealthState) protocol.TaskHealth {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var states []protocol.HealthState
	var last protocol.TaskHealth
	check.Port = int(addr.Port())
	probe.Prober{Check: check, Host: addr.Addr(), Report: func(h protocol.TaskHealth) {
		last = h
		if len(states) == 0 || states[len(states)-1] != h.State {
			states = append(states, h.State)
		}
		if len(states) == len(want) {
			cancel()
		}
	}}.Run(ctx)
	if !slices.Equal(states, want) {
		t.Fatalf("states %v, want %v; last %+v", states, want, last)
	}
	return last
}

func serve(t *testing.T, handler http.HandlerFunc) netip.AddrPort {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return netip.MustParseAddrPort(server.Listener.Addr().String())
}

// fast asks often, and waits for an answer longer than observe does.
var fast = protocol.HealthCheck{Type: protocol.HealthHTTP, Path: "/health", IntervalSeconds: 1, TimeoutSeconds: 600, FailureThreshold: 2}

func TestAServiceStartsBecomesHealthyAndFallsIll(t *testing.T) {
	var n atomic.Int32
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		if i := n.Add(1); i == 1 || i > 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	last := observe(t, fast, addr, protocol.HealthStarting, protocol.HealthHealthy, protocol.HealthUnhealthy)
	if last.ConsecutiveFailures != 2 || !strings.Contains(last.Message, "503") || last.Since == nil {
		t.Fatalf("got %+v", last)
	}
}

func TestARedirectIsAnAnswerAndIsNotFollowed(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
	})
	observe(t, fast, addr, protocol.HealthStarting, protocol.HealthHealthy)
}

func TestABodyWithoutEndDoesNotHoldTheProbe(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, strings.Repeat("x", 1<<10)); err != nil {
				return
			}
		}
	})
	observe(t, fast, addr, protocol.HealthStarting, protocol.HealthHealthy)
}

func TestAHungServiceFailsAtItsTimeout(t *testing.T) {
	addr := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	check := fast
	check.TimeoutSeconds, check.FailureThreshold = 1, 1
	last := observe(t, check, addr, protocol.HealthStarting, protocol.HealthUnhealthy)
	if !strings.Contains(last.Message, "no answer within 1s") {
		t.Errorf("got %+v", last)
	}
}

// firstProbe is how long after Run the service is first asked: nothing is there to answer.
func firstProbe(t *testing.T, delay int64, age time.Duration) (after time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		begun := time.Now()
		check := protocol.HealthCheck{Type: "none", Port: 1, InitialDelaySeconds: delay}
		probe.Prober{Check: check, Host: netip.IPv6Loopback(), Age: age, Report: func(h protocol.TaskHealth) {
			if h.ConsecutiveFailures == 1 {
				after = time.Since(begun)
				cancel()
			}
		}}.Run(ctx)
	})
	return after
}

func TestTheInitialDelayCountsFromTheStartOfTheService(t *testing.T) {
	for _, tc := range []struct {
		delay       int64 // seconds
		age, awaits time.Duration
	}{
		{0, 0, 0},
		{300, 0, 5 * time.Minute},
		{300, 2 * time.Minute, 3 * time.Minute},
		{300, 24 * time.Hour, 0},
	} {
		if got := firstProbe(t, tc.delay, tc.age); got != tc.awaits {
			t.Errorf("a delay of %d s, %v after the start: asked after %v, want %v", tc.delay, tc.age, got, tc.awaits)
		}
	}
}

func TestTCPIsHealthyWhenTheConnectionOpens(t *testing.T) {
	check := fast
	check.Type = protocol.HealthTCP
	observe(t, check, serve(t, nil), protocol.HealthStarting, protocol.HealthHealthy)

	closed := netip.MustParseAddrPort("127.0.0.1:1") // no port that somebody else may be given meanwhile
	observe(t, check, closed, protocol.HealthStarting, protocol.HealthUnhealthy)
}

func TestAPathCannotChangeTheHost(t *testing.T) {
	check := fast
	check.Path, check.FailureThreshold = "@192.0.2.1/", 1
	last := observe(t, check, serve(t, nil), protocol.HealthStarting, protocol.HealthUnhealthy)
	if !strings.Contains(last.Message, "cannot be asked for") {
		t.Fatalf("got %+v", last)
	}
}
