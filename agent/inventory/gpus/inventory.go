package gpus

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
	"github.com/heteroflow/node-agent/protocol"
)

// Options make an Inventory.
type Options struct {
	Machine         Machine
	Period          time.Duration    // between two rounds of one vendor
	InventoryPeriod time.Duration    // between two full inventories of one vendor
	Virtual         bool             // report a virtual device where nothing is found
	Journal         *journal.Journal // keeps the remembered cards; its GPUs collection is this package's
	Log             *zap.Logger
}

// Inventory is what the agent knows of its cards. Its methods are safe for
// concurrent use.
type Inventory struct {
	machine   Machine
	collector *gpu.Collector
	log       *zap.Logger
}

// New makes the detectors and reads the remembered cards. It asks nobody yet.
func New(opts Options) (*Inventory, error) {
	detectors := opts.Machine.Detectors()
	if opts.Virtual {
		detectors = append(detectors, Fallback())
	}
	kept, err := openStore(opts.Journal)
	if err != nil {
		return nil, err
	}
	cfg := opts.Machine.config(detectors)
	cfg.Store, cfg.Log = kept, opts.Log
	registry, err := gpu.NewRegistry(cfg)
	if err != nil {
		return nil, err
	}
	return &Inventory{
		machine: opts.Machine, log: opts.Log,
		collector: gpu.NewCollector(registry, Periods(opts.Period, opts.InventoryPeriod)),
	}, nil
}

// RoundDeadline is how long one vendor may take to answer. A full inventory runs
// several commands, of which each may take a third of it, and NVIDIA's helper may
// take two thirds to wake eight cards that sleep.
const RoundDeadline = 3 * tool.DefaultDeadline

// Periods returns a collector's periods.
func Periods(collect, inventory time.Duration) gpu.Periods {
	return gpu.Periods{Collect: collect, Inventory: inventory, Deadline: RoundDeadline}
}

// Run keeps asking until ctx ends, and then ends the tools that still run.
func (i *Inventory) Run(ctx context.Context) {
	i.collector.Run(ctx)
	if err := i.machine.Close(); err != nil {
		i.log.Warn("a GPU tool did not end", zap.Error(err))
	}
}

// Ready is closed when every vendor's tool has answered, or failed, once.
func (i *Inventory) Ready() <-chan struct{} { return i.collector.Ready() }

// Renew asks for a full inventory now and waits for it. The error is the context's.
func (i *Inventory) Renew(ctx context.Context) error { return i.collector.Renew(ctx) }

// Snapshot returns what is known now, without waiting.
func (i *Inventory) Snapshot() gpu.Snapshot { return i.collector.Latest() }

// Report returns what a heartbeat says of the cards, without waiting.
func (i *Inventory) Report() protocol.GPUReport {
	report := Report(i.collector.Latest())
	select {
	case <-i.collector.Ready():
	default:
		if len(report.GPUs) == 0 {
			// Not "no card": some vendors have not answered yet.
			report.GPUs, report.GPUCapabilities = nil, nil
		}
	}
	return report
}
