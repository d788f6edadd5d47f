package gpus

import (
	"fmt"

	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/gpu"
)

// storeKey is the one record of the journal's collection.
const storeKey = "cards"

// seen is that record.
type seen struct {
	Cards []gpu.Known `json:"cards"`
}

// store keeps the remembered cards in the journal; it implements gpu.Store. What
// the disk does not take stays in memory, and the journal writes it later.
type store struct {
	records *journal.Collection[seen]
}

func openStore(j *journal.Journal) (store, error) {
	records, err := journal.NewCollection(j, journal.GPUs, journal.Limits[seen]{Max: 1})
	if err != nil {
		return store{}, fmt.Errorf("open remembered GPU inventory: %w", err)
	}
	return store{records}, nil
}

// Load implements gpu.Store.
func (s store) Load() ([]gpu.Known, error) {
	record, _, err := s.records.Get(storeKey)
	return record.Cards, err
}

// Save implements gpu.Store.
func (s store) Save(cards []gpu.Known) error { return s.records.Put(storeKey, seen{cards}) }
