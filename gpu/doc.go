// Package gpu owns what the agent knows about accelerators: the value types of
// the heartbeat, the Detector interface that each vendor package implements,
// and the Collector that asks every detector and merges what they say.
//
// # Rules
//
//   - Every vendor is asked. The first in the priority chain (see Vendors) that
//     finds a card names the node's type; the others' cards are reported too.
//   - A tool that is not installed means "not this vendor". A tool that is there
//     and fails is a collector error, never "no GPU".
//   - What was not measured is absent: measured values are pointers, never 0.
//   - PCI is a second witness (package gpu/pci): cards on the bus whose driver
//     does not answer are reported as such, not replaced by a virtual GPU.
//   - Cards once seen are remembered by uuid and bus id, across restarts, so that
//     a row that silently vanished from a tool's output becomes a Failure.
//
// The package never runs a program itself (gpu/tool does) and imports nothing
// of ours outside gpu/. Goroutines: Collector.Run starts one per detector, each
// with at most one round in flight, and waits for all of them before it returns.
package gpu
