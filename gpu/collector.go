package gpu

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Periods of a Collector and bounds on its rounds.
type Periods struct {
	Collect   time.Duration // between two rounds of one vendor
	Inventory time.Duration // between two full inventories of one vendor
	Deadline  time.Duration // of one round
}

// staleAfter is how many collection periods a vendor's last good values are
// reported before they are taken for unknown.
const staleAfter = 3

// Collector asks each detector in its own goroutine, again and again, and keeps
// what it said last. Latest never waits for a tool: a vendor that hangs delays
// neither the heartbeat nor another vendor; its own values grow old, and are
// absent when they are older than three collection periods.
type Collector struct {
	registry *Registry
	periods  Periods
	wake     []chan struct{} // by detector: ask for a full inventory now
	ready    chan struct{}   // closed when every detector has answered once

	mu      sync.Mutex
	states  []state       // by detector
	pending int           // detectors that have not answered yet
	kept    chan struct{} // closed, and made anew, at the end of each round
}

// state is what one detector said.
type state struct {
	last  *Report   // of the last round; nil before the first has ended
	good  *Report   // of the last round in which the vendor's tool answered
	asked time.Time // when the last round began
	begun int       // rounds
	ended int       // the last of them that has ended; 0: none
}

// NewCollector returns a Collector of the registry's detectors.
func NewCollector(r *Registry, p Periods) *Collector {
	c := &Collector{
		registry: r, periods: p, ready: make(chan struct{}), kept: make(chan struct{}),
		states: make([]state, len(r.detectors)), pending: len(r.detectors),
	}
	for range r.detectors {
		c.wake = append(c.wake, make(chan struct{}, 1))
	}
	if c.pending == 0 {
		close(c.ready)
	}
	return c
}

// Run asks until ctx ends, then waits for the rounds in flight, which the end of
// ctx cuts short.
func (c *Collector) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range c.registry.detectors {
		wg.Go(func() { c.watch(ctx, i) })
	}
	wg.Wait()
}

// Ready is closed when every detector has answered, or failed, once.
func (c *Collector) Ready() <-chan struct{} { return c.ready }

// Renew asks every vendor for a full inventory now and waits until each has answered it, or
// failed to: after an operation that changed the cards, and before a single round's word
// against a card is acted on. The error is the context's.
func (c *Collector) Renew(ctx context.Context) error {
	c.mu.Lock()
	want := make([]int, len(c.states))
	for i, s := range c.states {
		want[i] = s.begun + 1 // one that is under way may have seen the cards before
	}
	c.mu.Unlock()
	for _, wake := range c.wake {
		select {
		case wake <- struct{}{}:
		default: // one is waiting already
		}
	}
	for {
		c.mu.Lock()
		kept, renewed := c.kept, true
		for i, s := range c.states {
			renewed = renewed && s.ended >= want[i]
		}
		c.mu.Unlock()
		if renewed {
			return nil
		}
		select {
		case <-kept:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// watch is the loop of one detector.
func (c *Collector) watch(ctx context.Context, i int) {
	var known, lean *Report // the last inventory, nil: the next round is a full one; and the last other round
	var inventoried time.Time
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake[i]:
			known = nil
		case <-timer.C:
		}
		began, round := c.begin(i)
		if began.Sub(inventoried) >= c.periods.Inventory {
			known = nil
		}
		rep := c.ask(ctx, i, known)
		if known != nil && rep.answered() {
			before := lean
			lean = new(rep)
			if !rep.sameCards(*known) && (before == nil || !rep.sameCards(*before)) {
				known = nil
				rep = c.ask(ctx, i, nil)
			}
		}
		if ctx.Err() != nil { // cut short: what it says is not about the cards
			return
		}
		switch {
		case !rep.answered():
			known = nil
		case known == nil:
			known, inventoried = new(rep), began
		}
		c.keep(i, round, rep)
		// A round that took longer than its period is followed by a pause all the
		// same: the tools must not keep a core busy.
		timer.Reset(max(c.periods.Collect-time.Since(began), c.periods.Collect/4))
	}
}

// begin counts a detector's round.
func (c *Collector) begin(i int) (at time.Time, round int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.states[i]
	s.asked = time.Now()
	s.begun++
	return s.asked, s.begun
}

func (c *Collector) ask(ctx context.Context, i int, known *Report) Report {
	ctx, cancel := context.WithTimeout(ctx, c.periods.Deadline)
	defer cancel()
	return c.registry.round(ctx, c.registry.detectors[i], known)
}

// answered reports whether the vendor's tool is there and answered as a whole.
func (r Report) answered() bool { return !r.Absent && r.CollectorError == nil }

// keep stores a round's report and logs what is new in it.
func (c *Collector) keep(i, round int, rep Report) {
	c.mu.Lock()
	s := &c.states[i]
	before := s.last
	s.last, s.ended = &rep, round
	close(c.kept)
	c.kept = make(chan struct{})
	if rep.answered() {
		s.good = &rep
	}
	if before == nil {
		if c.pending--; c.pending == 0 {
			close(c.ready)
		}
	}
	c.mu.Unlock()
	c.registry.note(before, rep)
}

// Latest returns what is known now, without waiting. Until every detector has
// answered once, a node without a card has no type rather than a virtual one.
func (c *Collector) Latest() Snapshot {
	now := time.Now()
	c.mu.Lock()
	var reports []Report
	for i := range c.states {
		if rep, ok := c.states[i].report(now, staleAfter*c.periods.Collect); ok &&
			(rep.Vendor != Virtual || c.pending == 0) {
			reports = append(reports, rep)
		}
	}
	c.mu.Unlock()
	return c.registry.merge(reports)
}

// report returns what the heartbeat says of a vendor: the last round's report;
// when that round failed, with the last good cards and values in it, as long as
// they are young enough.
func (s state) report(now time.Time, tooOld time.Duration) (Report, bool) {
	if s.last == nil {
		return Report{}, false
	}
	young := s.good != nil && now.Sub(s.good.At) <= tooOld
	switch {
	case s.last.answered() && young, s.last.Absent:
		return *s.last, true
	case s.last.answered(): // and nothing since
		return Report{Vendor: s.last.Vendor, At: s.last.At, CollectorError: &CollectorError{
			Code: CodeToolHung, Message: fmt.Sprintf("no answer for %s; the tool is still running since %s",
				now.Sub(s.last.At).Round(time.Second), s.asked.UTC().Format(time.RFC3339)),
		}}, true
	case young:
		rep := *s.good
		rep.CollectorError = s.last.CollectorError
		return rep, true
	}
	return *s.last, true
}

// note logs what changed between two rounds of a vendor; repetitions are not
// logged, a failing tool fails in every round.
func (r *Registry) note(before *Report, now Report) {
	if before == nil {
		before = &Report{Absent: true}
	}
	log := r.log.With(zap.String("gpu_vendor", string(now.Vendor)))
	if len(before.Devices) != len(now.Devices) && now.Vendor != Virtual {
		log.Info("GPU inventory changed", zap.Int("cards_before", len(before.Devices)), zap.Int("cards", len(now.Devices)))
	}
	switch was, is := before.CollectorError, now.CollectorError; {
	case is != nil && (was == nil || was.Code != is.Code):
		log.Warn("GPU collection fails", zap.String("code", is.Code), zap.String("message", is.Message))
	case is == nil && was != nil:
		log.Info("GPU collection works again")
	}
	for _, f := range now.Failures {
		if !before.hasFailure(f) {
			log.Warn("GPU failed", zap.Intp("gpu_index", f.Index), zap.String("gpu_uuid", f.UUID),
				zap.String("bus_id", f.BusID), zap.String("code", f.Code), zap.String("message", f.Message))
		}
	}
	for _, f := range before.Failures {
		if !now.hasFailure(f) {
			log.Info("GPU failure is over", zap.Intp("gpu_index", f.Index), zap.String("gpu_uuid", f.UUID),
				zap.String("bus_id", f.BusID), zap.String("code", f.Code))
		}
	}
}

func (r *Report) hasFailure(f Failure) bool {
	for _, have := range r.Failures {
		if have.Code == f.Code && have.UUID == f.UUID && have.BusID == f.BusID && equal(have.Index, f.Index) {
			return true
		}
	}
	return false
}
