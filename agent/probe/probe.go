// Package probe asks a task's service whether it is well, over HTTP or TCP, and turns
// the answers into the health the heartbeat reports. What becomes of an unhealthy service is
// not its business.
//
// Run works in its caller's goroutine and starts none that outlive a probe.
package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"github.com/heteroflow/node-agent/agent/wallclock"
	"github.com/heteroflow/node-agent/protocol"
)

// maxBody is how much of an answer is read: enough to let the server finish a normal
// health page, too little to be fed without end.
const maxBody = 64 << 10

// Prober probes one service.
type Prober struct {
	Check protocol.HealthCheck
	Host  netip.Addr    // where the container's ports are reached
	Age   time.Duration // of the run of the service, of whose initial delay so much is over
	// Report takes the health after every probe, and once before the first.
	Report func(protocol.TaskHealth)
}

// Run probes until ctx ends. The service counts as starting until its first success,
// unless failure_threshold probes fail first.
func (p Prober) Run(ctx context.Context) {
	check := p.Check.WithDefaults()
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: maxBody}, // no proxy: the service is on this node
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	health := protocol.TaskHealth{State: protocol.HealthStarting, Since: new(wallclock.Now())}
	p.Report(health)
	wait := seconds(check.InitialDelaySeconds) - p.Age
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = seconds(check.IntervalSeconds)
		err := probe(ctx, client, check, p.Host)
		if ctx.Err() != nil {
			return
		}
		health = next(health, err, check.FailureThreshold, wallclock.Now())
		p.Report(health)
	}
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// next is the health after a probe that ended with err.
func next(h protocol.TaskHealth, err error, threshold int, now time.Time) protocol.TaskHealth {
	state := protocol.HealthHealthy
	if err == nil {
		h.ConsecutiveFailures, h.Message = 0, ""
	} else {
		h.ConsecutiveFailures++
		h.Message = err.Error()
		if state = h.State; h.ConsecutiveFailures >= threshold {
			state = protocol.HealthUnhealthy
		}
	}
	if state != h.State {
		h.State, h.Since = state, new(now)
	}
	return h
}

func probe(ctx context.Context, client *http.Client, check protocol.HealthCheck, host netip.Addr) error {
	timeout := seconds(check.TimeoutSeconds)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %v", timeout))
	defer cancel()
	address := net.JoinHostPort(host.String(), strconv.Itoa(check.Port))
	switch check.Type {
	case protocol.HealthTCP:
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		return conn.Close()
	case protocol.HealthHTTP:
		return get(ctx, client, address, check.Path)
	default:
		return fmt.Errorf("health check of unknown type %q", check.Type)
	}
}

func get(ctx context.Context, client *http.Client, address, path string) error {
	target, err := url.Parse("http://" + address + path)
	if err != nil || target.Host != address {
		return fmt.Errorf("health check path %q cannot be asked for", path)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	// The answer counts once it has come; a body that breaks off does not undo it.
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxBody))
	if resp.StatusCode < 200 || resp.StatusCode > 399 {
		return fmt.Errorf("GET %s: status %d", path, resp.StatusCode)
	}
	return nil
}
