// Package lease is the book of who has which card of the node. It keeps two tasks off one
// card whatever the control plane believes.
//
// A hold belongs to one assignment of a task, and only that assignment gives it up: whoever
// is late with a release cannot free what somebody else holds by now. The book is in memory
// only; after a restart it is written anew from what the containers' labels say, before
// anything new is claimed.
//
// It knows neither what a card is nor whether a container lives, and starts no goroutine.
package lease

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Owner is one assignment of a task.
type Owner struct {
	TaskID     string
	Generation int64
}

// Hold is a card or a part of one.
type Hold struct {
	// Card identifies the card on this node, the same over restarts.
	Card string `json:"card"`
	// Slice identifies the part; empty: the whole card, which excludes all parts of it.
	Slice string `json:"slice,omitempty"`
	// Shared: others who say so, too, may have the same part at the same time.
	Shared bool `json:"shared,omitempty"`
}

// String names what is held, for messages.
func (h Hold) String() string {
	if h.Slice == "" {
		return h.Card
	}
	return h.Card + " slice " + h.Slice
}

// excludes tells whether two holds cannot have different owners.
func (h Hold) excludes(o Hold) bool {
	if h.Card != o.Card || h.Shared && o.Shared && h.Slice == o.Slice {
		return false
	}
	return h.Slice == "" || o.Slice == "" || h.Slice == o.Slice
}

// ConflictError says who has what was asked for.
type ConflictError struct {
	Wanted Hold
	Held   Hold
	Owner  Owner
}

// Error names the hold and its owner.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%s is held by task %s, generation %d (%s)", e.Wanted, e.Owner.TaskID, e.Owner.Generation, e.Held)
}

// Book is the book. Its zero value is an empty one; it is safe for concurrent use.
type Book struct {
	mu    sync.Mutex
	holds map[Owner][]Hold
}

// Reserve gives all of holds to owner, or nothing: then the error is a *ConflictError for
// the first that somebody else has. What the owner has already it keeps.
func (b *Book) Reserve(owner Owner, holds []Hold) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.conflict(owner, holds); err != nil {
		return err
	}
	b.add(owner, holds)
	return nil
}

// Restore notes that owner has holds, because its container runs with them: a fact that no
// conflict undoes. The error, a *ConflictError, tells of one.
func (b *Book) Restore(owner Owner, holds []Hold) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	err := b.conflict(owner, holds)
	b.add(owner, holds)
	return err
}

// Release takes back all that owner has. Nothing of anybody else's changes.
func (b *Book) Release(owner Owner) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.holds, owner)
}

func (b *Book) conflict(owner Owner, holds []Hold) error {
	for _, wanted := range holds {
		for _, other := range b.owners() {
			if other == owner {
				continue
			}
			if i := slices.IndexFunc(b.holds[other], wanted.excludes); i >= 0 {
				return &ConflictError{Wanted: wanted, Held: b.holds[other][i], Owner: other}
			}
		}
	}
	return nil
}

// owners are in an order, so that of two conflicts the same is told each time.
func (b *Book) owners() []Owner {
	return slices.SortedFunc(maps.Keys(b.holds), func(x, y Owner) int {
		return cmp.Or(strings.Compare(x.TaskID, y.TaskID), cmp.Compare(x.Generation, y.Generation))
	})
}

func (b *Book) add(owner Owner, holds []Hold) {
	if b.holds == nil {
		b.holds = map[Owner][]Hold{}
	}
	for _, h := range holds {
		if !slices.Contains(b.holds[owner], h) {
			b.holds[owner] = append(b.holds[owner], h)
		}
	}
}
