package nvidia

import (
	"context"

	"github.com/heteroflow/node-agent/gpu"
)

// Source is one way to ask NVIDIA's driver about its cards. Its methods are not
// called concurrently. An error that wraps tool.ErrNotInstalled passes the
// question on to the next source; any other is the answer.
type Source interface {
	// Inventory reads everything: cards with their minors, versions and MIG
	// instances, measurements, failures, topology.
	Inventory(ctx context.Context) (Reading, error)
	// Collect reads cards, measurements and failures, as cheaply as it can.
	Collect(ctx context.Context) (Reading, error)
}

// Reading is what a Source says.
type Reading struct {
	gpu.Report // without capabilities

	// Events are the Xids since the reading before. nvidia-smi does not tell them.
	Events []gpu.KernelEvent

	// NoAction are the uuids of the cards of which the driver says that they
	// need no recovery. A card that is missing here may only have an old driver.
	NoAction []string
}
