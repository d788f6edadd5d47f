// Package gpus is the agent's view of its accelerators: it makes the detectors
// of all vendors, keeps them asking, remembers the cards in the journal, and
// says what it knows in the words of the protocol.
//
// It decides nothing about a card: package gpu does. A heartbeat never waits for
// it. Goroutines: those of gpu.Collector, within Run.
package gpus
