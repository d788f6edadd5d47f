package containerd

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/containers"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/heteroflow/node-agent/runtime"
)

// maxID is containerd's.
const maxID = 76

// idPattern is what containerd takes for an identifier.
var idPattern = regexp.MustCompile(`^[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*$`)

// namePattern is what [runtime.Spec] takes for a name.
var namePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{1,127}$`)

func validID(id string) bool { return len(id) <= maxID && idPattern.MatchString(id) }

func randomID() string { return strings.ToLower(rand.Text()) }

// containerID is the id of the container of a name: the name itself where containerd can
// take it, so that its own tools show it, else one made from it.
func containerID(name string) string {
	if validID(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "name-" + hex.EncodeToString(sum[:16])
}

func checkID(id string) error {
	if !validID(id) {
		return fmt.Errorf("%w: container id %q", runtime.ErrInvalid, id)
	}
	return nil
}

const (
	// metaKey is where in a container's extensions our own facts stand.
	metaKey = "io.heteroflow.container"
	metaURL = "heteroflow.io/container/v1"

	// labelBytes is how long a label's key and value together may be in containerd, which
	// also drops empty values. What it cannot keep goes with our own facts: either way
	// the labels come with the container.
	labelBytes = 4096
)

// meta is what we must know of a container that containerd has no place for.
type meta struct {
	Name       string            `json:"name"`
	Image      string            `json:"image"` // normalised, as it was asked for
	Labels     map[string]string `json:"labels,omitempty"`
	Network    runtime.Network   `json:"network"`
	Hostname   string            `json:"hostname"`
	StopSignal string            `json:"stop_signal,omitempty"` // the image's
	Logs       runtime.LogLimits `json:"logs"`
}

// splitLabels tells the labels containerd can store from those it cannot.
func splitLabels(all map[string]string) (small, large map[string]string) {
	small, large = map[string]string{}, map[string]string{}
	for key, value := range all {
		if len(key)+len(value) <= labelBytes && key != "" && value != "" {
			small[key] = value
		} else {
			large[key] = value
		}
	}
	return small, large
}

func (m meta) encode() (*anypb.Any, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode what is known of %s: %w", m.Name, err)
	}
	return &anypb.Any{TypeUrl: metaURL, Value: data}, nil
}

// metaOf reads our own facts of a container, its labels whole. A container that somebody
// else has put into our namespace has none.
func metaOf(c containers.Container) (m meta, ours bool, err error) {
	extension, ours := c.Extensions[metaKey]
	if !ours {
		return meta{Name: c.ID, Image: c.Image, Labels: c.Labels}, false, nil
	}
	if err := json.Unmarshal(extension.GetValue(), &m); err != nil {
		return meta{}, true, fmt.Errorf("decode what is known of container %s: %w", c.ID, err)
	}
	labels := maps.Clone(c.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, m.Labels)
	m.Labels = labels
	return m, true, nil
}

// locks has one lock for each container that is being changed.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	free    chan struct{} // holds a token while nobody has the lock
	waiting int           // holders and waiters
}

// take waits for a container's lock. The returned function gives it back.
func (l *locks) take(ctx context.Context, id string) (release func(), err error) {
	l.mu.Lock()
	if l.held == nil {
		l.held = map[string]*lock{}
	}
	k, ok := l.held[id]
	if !ok {
		k = &lock{free: make(chan struct{}, 1)}
		k.free <- struct{}{}
		l.held[id] = k
	}
	k.waiting++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.waiting--; k.waiting == 0 {
			delete(l.held, id)
		}
	}
	select {
	case <-k.free:
		return func() { k.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
