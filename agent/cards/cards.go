// Package cards gives tasks the node's cards: it finds what a task asks for in the
// inventory, keeps the CDI specs from which runtimes take it current, says what it comes to
// in the task's container, and looks from outside whether the container got just that.
//
// It joins packages gpu and runtime, which do not know each other. Who has which card is
// not its business (package agent/lease). Run is one loop in its caller's goroutine.
package cards

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/loop"
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi"
)

// Inventory is what the node knows of its cards.
type Inventory interface {
	// Ready is closed when every vendor's tool has answered, or failed, once.
	Ready() <-chan struct{}
	// Snapshot is what is known now, without waiting.
	Snapshot() gpu.Snapshot
	// Renew asks every vendor's tool anew and waits for the answers. The error is the
	// context's.
	Renew(ctx context.Context) error
}

// Options make Cards.
type Options struct {
	Inventory Inventory
	Generator *cdi.Generator
	MPS       MPSDaemon
	Period    time.Duration // between two looks at the specs while no task asks
	Log       *zap.Logger
}

// Cards gives tasks the node's cards. It is safe for concurrent use.
type Cards struct {
	Options
	proc string // where the processes of this host are

	mu       sync.Mutex // one catalog at a time: a later one must not give way to an earlier
	reported map[string]bool
	failed   string // why the files could not be kept current, as it was logged
}

// New makes Cards. It looks at nothing yet.
func New(o Options) *Cards { return &Cards{Options: o, proc: "/proc"} }

// Run keeps the spec files current until ctx ends: containers that are started without
// being made anew, and people, take cards by them too.
func (c *Cards) Run(ctx context.Context) {
	loop.Loop{Period: func() time.Duration { return c.Period }, Do: c.round, Prompt: true}.Run(ctx)
}

func (c *Cards) round(ctx context.Context) error {
	err := c.Refresh(ctx)
	if ctx.Err() != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	failed := ""
	if err != nil {
		failed = err.Error()
	}
	if failed != c.failed && err != nil {
		c.Log.Error("CDI specs cannot be kept current", zap.Error(err))
	}
	c.failed = failed
	return err
}

// Refresh makes the spec files say what is there now, once the inventory is complete. It
// belongs after each operation that changes the cards.
func (c *Cards) Refresh(ctx context.Context) error {
	return c.withCatalog(ctx, c.save)
}

// withCatalog calls use with what can be given now, one caller after the other. The first
// inventory is waited for: what it does not list yet is not missing.
func (c *Cards) withCatalog(ctx context.Context, use func(*cdi.Catalog) error) error {
	select {
	case <-c.Inventory.Ready():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	catalog, err := c.Generator.Generate(ctx, c.Inventory.Snapshot())
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.report(catalog, err)
	return use(catalog)
}

func (c *Cards) save(catalog *cdi.Catalog) error {
	changed, err := catalog.Save()
	for _, file := range changed {
		c.Log.Info("CDI spec changed", zap.String("file", file))
	}
	return err
}

// report logs what is new among what the catalog lacks.
func (c *Cards) report(catalog *cdi.Catalog, err error) {
	now := map[string]bool{}
	if err != nil {
		c.note(now, err.Error(), func() { c.Log.Error("CDI spec not made; its cards cannot be given to tasks", zap.Error(err)) })
	}
	for _, a := range catalog.Absent() {
		c.note(now, fmt.Sprintf("absent %s %v %s", a.Device.Vendor, a.Device.UUID, a.Reason), func() {
			c.Log.Warn("card cannot be given to tasks", zap.String("gpu_vendor", string(a.Device.Vendor)),
				zap.Intp("gpu_index", a.Device.Index), zap.String("gpu_uuid", a.Device.UUID), zap.String("why", a.Reason))
		})
	}
	for vendor, list := range catalog.Omitted() {
		for _, o := range list {
			c.note(now, fmt.Sprintf("omitted %s %s %s", vendor, o.Path, o.Reason), func() {
				c.Log.Debug("left out of CDI spec", zap.String("gpu_vendor", string(vendor)), zap.String("path", o.Path), zap.String("why", o.Reason))
			})
		}
	}
	c.reported = now
}

// note logs something unless it was logged the last time, too.
func (c *Cards) note(now map[string]bool, what string, log func()) {
	if !c.reported[what] && !now[what] {
		log()
	}
	now[what] = true
}

// sees tells whether one of the directories a runtime takes CDI specs from is the one they
// are written to. Daemons name theirs without links.
func sees(dirs []string, dir string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return withoutLinks(d) == withoutLinks(dir) })
}

func withoutLinks(dir string) string {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		return resolved
	}
	return filepath.Clean(dir)
}

// cardID identifies a card over restarts: by its uuid; by its place where the vendor gives
// none, with the chip, as a board may carry several; by its index where there is neither.
func cardID(d gpu.Device) string {
	switch {
	case d.UUID != "":
		return fmt.Sprintf("%s %s", d.Vendor, d.UUID)
	case d.BusID != "" && d.Chip != nil:
		return fmt.Sprintf("%s %s chip %d", d.Vendor, d.BusID, *d.Chip)
	case d.BusID != "":
		return fmt.Sprintf("%s %s", d.Vendor, d.BusID)
	default:
		return fmt.Sprintf("%s card %d", d.Vendor, *d.Index)
	}
}
