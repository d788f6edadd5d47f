package executor

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/probe"
	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// health is what is known of how well a task's service is. Its owner watches one run of
// the service at a time; others may read.
type health struct {
	run     time.Time          // when the run watched now was started
	stop    context.CancelFunc // of the watch; nil: none
	watcher sync.WaitGroup

	mu     sync.Mutex
	now    protocol.TaskHealth
	remark string // on the run as such, whatever its probes find
}

// watch probes the service in the container, if it has a check, until end is called. It
// goes on undisturbed when called again for the same run.
func (h *health) watch(ctx context.Context, t *task, c runtime.Container) {
	if h.stop != nil && h.run.Equal(c.StartedAt) {
		return
	}
	h.end()
	check := t.supervision.Health
	if check == nil {
		return
	}
	host := c.IP
	if t.supervision.Network == protocol.NetworkHost {
		host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	probing, stop := context.WithCancel(ctx)
	h.run, h.stop = c.StartedAt, stop
	if !host.IsValid() {
		t.setHealth(protocol.TaskHealth{State: protocol.HealthUnknown, Message: fmt.Sprintf("the container has no address to probe: its network is %s", t.supervision.Network)})
		return
	}
	var age time.Duration // an earlier agent may have waited for the service already
	if !c.StartedAt.IsZero() {
		age = time.Since(t.began(c.StartedAt))
	}
	h.watcher.Go(func() { probe.Prober{Check: *check, Host: host, Age: age, Report: t.setHealth}.Run(probing) })
}

// end stops the watch.
func (h *health) end() {
	if h.stop != nil {
		h.stop()
		h.stop = nil
	}
	h.watcher.Wait()
}

// forget stops the watch and drops what was known: that run is over.
func (h *health) forget() {
	h.end()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now, h.remark = protocol.TaskHealth{}, ""
}

// note keeps a remark on the run.
func (h *health) note(remark string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remark = remark
}

// illness is what the task wants to be ended for; empty: nothing.
func (t *task) illness() string {
	if check := t.supervision.Health; check == nil || !check.StopWhenUnhealthy {
		return ""
	}
	t.health.mu.Lock()
	defer t.health.mu.Unlock()
	if now := t.health.now; now.State == protocol.HealthUnhealthy && now.ConsecutiveFailures > 0 { // else it is no probe that says so
		return fmt.Sprintf("unhealthy after %d failed probes, the last: %s", now.ConsecutiveFailures, now.Message)
	}
	return ""
}

func (t *task) setHealth(now protocol.TaskHealth) {
	now.TaskID = t.id
	t.health.mu.Lock()
	before := t.health.now.State
	t.health.now = now
	t.health.mu.Unlock()
	if before != now.State {
		t.log.Info("health changed", zap.String("health", string(now.State)), zap.String("message", now.Message))
	}
	if t.illness() != "" {
		t.nudge()
	}
}

func (t *task) healthNow() (protocol.TaskHealth, bool) {
	t.health.mu.Lock()
	defer t.health.mu.Unlock()
	now := t.health.now
	if remark := t.health.remark; remark != "" {
		if now.TaskID == "" {
			now = protocol.TaskHealth{TaskID: t.id, State: protocol.HealthUnknown}
		}
		now.Message = strings.TrimSuffix(remark+"; "+now.Message, "; ")
	}
	return now, now.TaskID != ""
}
