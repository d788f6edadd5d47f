package lease_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/heteroflow/node-agent/agent/lease"
)

func owner(id string) lease.Owner { return lease.Owner{TaskID: id, Generation: 1} }

func whole(card string) []lease.Hold { return []lease.Hold{{Card: card}} }

func part(card, slice string) []lease.Hold { return []lease.Hold{{Card: card, Slice: slice}} }

func shared(card, slice string) []lease.Hold {
	return []lease.Hold{{Card: card, Slice: slice, Shared: true}}
}

func TestWhatExcludesWhat(t *testing.T) {
	cases := map[string]struct {
		first, second []lease.Hold
		conflict      bool
	}{
		"the same card":                    {whole("a"), whole("a"), true},
		"two cards":                        {whole("a"), whole("b"), false},
		"two parts of a card":              {part("a", "1"), part("a", "2"), false},
		"the same part":                    {part("a", "1"), part("a", "1"), true},
		"the same part of two cards":       {part("a", "1"), part("b", "1"), false},
		"a part of a card that is held":    {whole("a"), part("a", "1"), true},
		"a card of which a part is held":   {part("a", "1"), whole("a"), true},
		"one of several cards":             {whole("b"), []lease.Hold{{Card: "a"}, {Card: "b"}}, true},
		"a shared part, shared":            {shared("a", "mps"), shared("a", "mps"), false},
		"a shared part, wanted alone":      {shared("a", "mps"), part("a", "mps"), true},
		"a part held alone, to be shared":  {part("a", "mps"), shared("a", "mps"), true},
		"a card of which a part is shared": {shared("a", "mps"), whole("a"), true},
		"a shared part of a card held":     {whole("a"), shared("a", "mps"), true},
		"nothing beside a card":            {whole("a"), nil, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var b lease.Book
			if err := b.Reserve(owner("first"), tc.first); err != nil {
				t.Fatal(err)
			}
			err := b.Reserve(owner("second"), tc.second)
			conflict, ok := errors.AsType[*lease.ConflictError](err)
			if ok != tc.conflict {
				t.Fatalf("got %v, want a conflict: %v", err, tc.conflict)
			}
			if ok && conflict.Owner != owner("first") {
				t.Errorf("held by %v", conflict.Owner)
			}
		})
	}
}

func TestARefusedReservationReservesNothing(t *testing.T) {
	var b lease.Book
	if err := b.Reserve(owner("first"), whole("b")); err != nil {
		t.Fatal(err)
	}
	if err := b.Reserve(owner("second"), []lease.Hold{{Card: "a"}, {Card: "b"}}); err == nil {
		t.Fatal("no conflict")
	}
	if err := b.Reserve(owner("third"), whole("a")); err != nil {
		t.Errorf("card a is held after a reservation that failed: %v", err)
	}
}

func TestReservingAgainChangesNothing(t *testing.T) {
	var b lease.Book
	for range 2 {
		if err := b.Reserve(owner("first"), whole("a")); err != nil {
			t.Fatal(err)
		}
	}
	b.Release(owner("first"))
	if err := b.Reserve(owner("second"), whole("a")); err != nil {
		t.Errorf("held twice: %v", err)
	}
}

// A release that comes twice, the second time after the card went to somebody else, must
// not free it (dstack's shim did).
func TestALateReleaseFreesNothingOfAnotherOwner(t *testing.T) {
	var b lease.Book
	first, second, again := owner("first"), owner("second"), lease.Owner{TaskID: "first", Generation: 2}
	if err := b.Reserve(first, whole("a")); err != nil {
		t.Fatal(err)
	}
	b.Release(first)
	if err := b.Reserve(second, whole("a")); err != nil {
		t.Fatal(err)
	}
	b.Release(first)
	b.Release(again)
	if err := b.Reserve(owner("third"), whole("a")); err == nil {
		t.Error("the card was freed by somebody who no longer had it")
	}
}

func TestAnotherAssignmentOfTheSameTaskIsAnotherOwner(t *testing.T) {
	var b lease.Book
	if err := b.Reserve(lease.Owner{TaskID: "x", Generation: 1}, whole("a")); err != nil {
		t.Fatal(err)
	}
	if err := b.Reserve(lease.Owner{TaskID: "x", Generation: 2}, whole("a")); err == nil {
		t.Error("the later assignment shares a card with the earlier one")
	}
}

func TestWhatRunsIsNotedWhateverItConflictsWith(t *testing.T) {
	var b lease.Book
	if err := b.Restore(owner("first"), whole("a")); err != nil {
		t.Fatal(err)
	}
	if err := b.Restore(owner("second"), whole("a")); err == nil {
		t.Error("two containers on one card are not told of")
	}
	b.Release(owner("first"))
	if err := b.Reserve(owner("third"), whole("a")); err == nil {
		t.Error("the card is free although the second container runs on it")
	}
	b.Release(owner("second"))
	if err := b.Reserve(owner("third"), whole("a")); err != nil {
		t.Error(err)
	}
}

func TestOfManyAtOnceOneGetsTheCard(t *testing.T) {
	var b lease.Book
	var won atomic.Int32
	var tasks sync.WaitGroup
	for i := range 50 {
		tasks.Go(func() {
			if b.Reserve(owner(fmt.Sprint(i)), whole("a")) == nil {
				won.Add(1)
			}
			b.Release(owner("nobody"))
		})
	}
	tasks.Wait()
	if won.Load() != 1 {
		t.Errorf("%d tasks got the card", won.Load())
	}
}
