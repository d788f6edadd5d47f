package runtimefake

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/heteroflow/node-agent/runtime"
)

// Latency is how long the daemon takes over each call, half of it before the call has its
// effect and half after.
const Latency = 10 * time.Millisecond

// Daemon is a container daemon.
type Daemon struct {
	// OnRemove, if set, is called when a client has a container removed, before it is. It
	// must not call the daemon.
	OnRemove func(runtime.Container)

	mu         sync.Mutex
	away       bool
	ahead      time.Duration // of its clients' clock
	cut        chan struct{} // closed when all calls that last are to end
	local      map[string]Program
	registry   map[string]Published
	containers map[string]*container // by id
	made       int                   // containers, for ids
	faults     []*fault
	starts     []Start
	pulls      map[string]int
	calls      map[Op]int
	misuse     []string
}

// Start is one time a program was started.
type Start struct {
	ID, Name string
	Labels   map[string]string
	At       time.Time
}

// NewDaemon makes a daemon without images and containers.
func NewDaemon() *Daemon {
	return &Daemon{
		cut: make(chan struct{}), local: make(map[string]Program), registry: make(map[string]Published),
		containers: make(map[string]*container), pulls: make(map[string]int), calls: make(map[Op]int),
	}
}

// Containers lists what is there, by name.
func (d *Daemon) Containers() []runtime.Container {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []runtime.Container
	for _, c := range d.containers {
		all = append(all, c.describe())
	}
	slices.SortFunc(all, func(a, b runtime.Container) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Spec is what a container is made from, by name; the zero Spec: there is none.
func (d *Daemon) Spec(name string) runtime.Spec {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.find(name); c != nil {
		return c.spec
	}
	return runtime.Spec{}
}

// Starts lists every time a program was started, in order.
func (d *Daemon) Starts() []Start {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.starts)
}

// Made counts the containers that were ever made.
func (d *Daemon) Made() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made
}

// Pulls counts the pulls of an image, failed ones included.
func (d *Daemon) Pulls(ref string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pulls[normal(ref)]
}

// Calls counts the calls of a method that reached the daemon.
func (d *Daemon) Calls(op Op) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[op]
}

// Misuse lists the calls that no client should make: those with an id that Create and List
// never return.
func (d *Daemon) Misuse() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.misuse)
}

// Stop takes the daemon away: its clients' calls fail and their waits are cut. What runs
// goes on.
func (d *Daemon) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = true
	d.cutCalls()
}

// Resume brings the daemon back.
func (d *Daemon) Resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = false
}

// SetClock sets the daemon's clock so far ahead of its clients', or behind. What it has said
// of earlier times stays as it was.
func (d *Daemon) SetClock(ahead time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ahead = ahead
}

// now is the time by the daemon's clock, without a monotonic reading as from any daemon.
func (d *Daemon) now() time.Time { return time.Now().Round(0).Add(d.ahead) }

// CutWaits ends every wait and pull under way with runtime.ErrUnavailable.
func (d *Daemon) CutWaits() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutCalls()
}

func (d *Daemon) cutCalls() {
	close(d.cut)
	d.cut = make(chan struct{})
}

// Vanish removes a container by name the way somebody else would.
func (d *Daemon) Vanish(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.find(name); c != nil {
		d.drop(c)
	}
}

// Force makes the daemon report a state for a container, whatever its program does; the
// zero State ends that.
func (d *Daemon) Force(name string, state runtime.State) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.find(name); c != nil {
		c.forced = state
	}
}

// Plant makes a container the way somebody else would, and returns it. It never ran.
func (d *Daemon) Plant(spec runtime.Spec) runtime.Container {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.add(spec).describe()
}

// Start starts a container by name the way somebody else would.
func (d *Daemon) Start(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.find(name); c != nil {
		d.run(c)
	}
}

// add makes a container.
func (d *Daemon) add(spec runtime.Spec) *container {
	d.made++
	labels := maps.Clone(spec.Labels)
	if labels == nil {
		labels = make(map[string]string)
	}
	labels[runtime.LabelSpecHash] = spec.Hash()
	c := &container{
		id: fmt.Sprintf("%064x", d.made), spec: spec, labels: labels, program: d.local[normal(spec.Image)],
		created: d.now(), gone: make(chan struct{}),
	}
	d.containers[c.id] = c
	return c
}

// find returns a container by id or name; nil if there is none.
func (d *Daemon) find(which string) *container {
	if c, ok := d.containers[which]; ok {
		return c
	}
	for _, c := range d.containers {
		if c.spec.Name == which {
			return c
		}
	}
	return nil
}

// drop removes a container, killing its program.
func (d *Daemon) drop(c *container) {
	c.end(d.exitOf(128+9, false))
	close(c.gone)
	delete(d.containers, c.id)
}

// normal is the reference under which an image is kept.
func normal(ref string) string {
	named, err := runtime.ParseReference(ref)
	if err != nil {
		return ref
	}
	return named.String()
}
