package gpu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/gpu/pci"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// Config is what a Registry is made of. Only Detectors is required.
type Config struct {
	// Detectors in the order of the priority chain; the fallback (Virtual), if
	// there is one, is last.
	Detectors []Detector

	// Sysfs is where sysfs is mounted; "" means /sys.
	Sysfs string

	// SeesAllCards says that every card of this machine is the agent's to see.
	// It is false for an agent in a container that was given some of them: there
	// sysfs shows cards that the tools rightly do not list.
	SeesAllCards bool

	// Store keeps the remembered inventory; nil: it lasts as long as the process.
	Store Store

	Log *zap.Logger // nil: none
}

// Registry asks the detectors and merges what they say. Its methods are safe
// for concurrent use, except that the rounds of one detector follow each other.
type Registry struct {
	detectors    []Detector
	sysfs        string
	seesAllCards bool
	memory       *memory
	log          *zap.Logger

	mu      sync.Mutex
	bus     []pci.Card
	scanned time.Time // when bus was read; zero: never
}

// NewRegistry returns a Registry. A store that cannot be read is reported and
// left alone: the inventory is then remembered afresh.
func NewRegistry(cfg Config) (*Registry, error) {
	r := &Registry{
		detectors: cfg.Detectors, sysfs: cfg.Sysfs, seesAllCards: cfg.SeesAllCards,
		memory: &memory{store: cfg.Store}, log: cfg.Log,
	}
	if r.sysfs == "" {
		r.sysfs = pci.DefaultSysfs
	}
	if r.log == nil {
		r.log = zap.NewNop()
	}
	names := map[Vendor]bool{}
	for _, d := range r.detectors {
		if names[d.Vendor()] {
			return nil, fmt.Errorf("make GPU registry: two detectors of %s", d.Vendor())
		}
		names[d.Vendor()] = true
	}
	if cfg.Store != nil {
		cards, err := cfg.Store.Load()
		if err != nil {
			r.log.Warn("the remembered GPU inventory cannot be read; cards that vanished before now are not missed",
				zap.Error(err))
		}
		r.memory.cards = cards
	}
	return r, nil
}

// Detect asks every detector once for its full inventory, all at the same time,
// and waits for the answers, of which each may take up to deadline.
func (r *Registry) Detect(ctx context.Context, deadline time.Duration) Snapshot {
	reports := make([]Report, len(r.detectors))
	var wg sync.WaitGroup
	for i, d := range r.detectors {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, deadline)
			defer cancel()
			reports[i] = r.round(ctx, d, nil)
		})
	}
	wg.Wait()
	return r.merge(reports)
}

// round asks one detector: for its full inventory when known is nil, else for a
// heartbeat's round, which is completed from the known inventory. Whatever goes
// wrong is in the report.
func (r *Registry) round(ctx context.Context, d Detector, known *Report) Report {
	ask := d.Collect
	if known == nil {
		ask = d.Inventory
	}
	rep, err := ask(ctx)
	rep.Vendor, rep.At = d.Vendor(), time.Now()
	switch {
	case errors.Is(err, tool.ErrNotInstalled):
		rep = Report{Vendor: rep.Vendor, At: rep.At, Absent: true}
	case err != nil && rep.CollectorError == nil:
		rep.CollectorError = toolError(err)
	}
	if rep.Vendor == Virtual {
		return rep
	}
	if known != nil {
		rep.complete(*known)
	}
	cards := r.cards(rep.Vendor)
	rep.locate(cards)
	r.witness(&rep, cards)
	if rep.CollectorError == nil || rep.Absent {
		// A tool that failed says nothing about which cards there are.
		onBus := func(busID string) bool { return find(cards, busID) != nil }
		if err := r.memory.check(&rep, onBus); err != nil {
			r.log.Warn("the GPU inventory cannot be stored; cards that vanish over a restart will not be missed",
				zap.Error(err))
		}
	}
	return rep
}

// toolError makes a collector error of what Run said.
func toolError(err error) *CollectorError {
	code := CodeToolFailed
	if _, ok := errors.AsType[*tool.HungError](err); ok {
		code = CodeToolHung
	} else if _, ok := errors.AsType[*tool.TimeoutError](err); ok || errors.Is(err, context.DeadlineExceeded) {
		code = CodeToolTimeout
	}
	return &CollectorError{Code: code, Message: err.Error()}
}

// complete fills the fields that do not change between rounds from the last
// inventory, card by card.
func (r *Report) complete(known Report) {
	for i := range r.Devices {
		d := &r.Devices[i]
		for _, k := range known.Devices {
			if d.sameCard(k) {
				k.Index = nil // it may have shifted
				d.fill(k)
				break
			}
		}
		if d.MIGMode == MIGDisabled {
			d.Instances = nil
		}
		for j := range r.Stats {
			if r.Stats[j].of(*d) {
				r.Stats[j].Index, r.Stats[j].UUID = d.Index, d.UUID
			}
		}
	}
	if r.Topology == nil && r.sameCards(known) {
		r.Topology = known.Topology
	}
	if r.DriverVersion == "" {
		r.DriverVersion = known.DriverVersion
	}
}

// sameCards reports whether both list the same devices under the same indices.
func (r *Report) sameCards(o Report) bool {
	if len(r.Devices) != len(o.Devices) {
		return false
	}
	for i, d := range r.Devices {
		if !d.sameNow(o.Devices[i]) {
			return false
		}
	}
	return true
}
