package recipe

import (
	"fmt"

	"tags.cncf.io/container-device-interface/specs-go"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/hostfs"
)

// recipe is what the cards of one vendor need in a container. Paths are the host's, and
// are looked up anew for each spec.
type recipe struct {
	// cards are the nodes of one card.
	cards []cardNode
	// dri is where, by its PCI address, the names of a card's nodes in /dev/dri stand; "":
	// it has none there. driRequired: it is nothing without them.
	dri         string
	driRequired bool
	// listed finds nodes of a card that no pattern gives.
	listed func(*build, gpu.Device) ([]*specs.DeviceNode, error)
	// alone says why a card can be given only where it is the only one; "": each can.
	alone string
	// shared are the nodes beside any card, and sharedDirs directories of such nodes. Which
	// of them there are depends on the driver's version and the card's generation.
	shared, sharedDirs []string
	mounts             []string // files and directories, where they exist
	libraries          []string // files looked for in the linker's default directories
	env                []string
	// more adds what no table can say.
	more func(*build)
	// platform is the recipe of a machine for which this one does not hold; nil: it does.
	platform func(hostfs.FS, []gpu.Device) *recipe
}

// cardNode is a device node of one card: a pattern with one %d and what says its number, or
// with neither.
type cardNode struct {
	pattern  string
	number   func(hostfs.FS, gpu.Device) (int, error)
	optional bool
}

func (c cardNode) path(h hostfs.FS, d gpu.Device) (string, error) {
	if c.number == nil {
		return c.pattern, nil
	}
	n, err := c.number(h, d)
	if err != nil {
		return "", fmt.Errorf("device node %s: %w", c.pattern, err)
	}
	return fmt.Sprintf(c.pattern, n), nil
}
