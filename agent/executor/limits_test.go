package executor

import (
	"errors"
	"testing"

	"github.com/heteroflow/node-agent/agent/journal"
)

func TestTheRecordOfATaskThatRanNeverGivesWay(t *testing.T) {
	j, err := journal.Open(t.TempDir(), journal.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	limits := recordLimits()
	if limits.Max < 1000 {
		t.Errorf("at most %d records", limits.Max)
	}
	limits.Max = 2
	records, err := journal.NewCollection(j, journal.Tasks, limits)
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		id   string
		r    Record
		want error
	}{
		{"ran", Record{Started: true}, nil},
		{"claimed", Record{}, nil},
		{"new", Record{Started: true}, nil}, // in the place of the one that was only claimed
		{"newer", Record{}, journal.ErrFull},
	}
	for _, step := range steps {
		if err := records.Put(step.id, step.r); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.id, err, step.want)
		}
	}
	for id, want := range map[string]bool{"ran": true, "claimed": false, "new": true, "newer": false} {
		if _, there, err := records.Get(id); there != want || err != nil {
			t.Errorf("%s is there: %t, %v", id, there, err)
		}
	}
}
