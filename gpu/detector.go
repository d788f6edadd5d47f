package gpu

import (
	"context"
	"time"
)

// Detector knows one vendor's cards. It is the product's extension point: a
// new vendor is one package with a Detector, one line in the agent's list and
// one row in gpu/pci's table.
//
// Its methods may take as long as the tools they run; the Collector gives each
// call a deadline through ctx and never lets one vendor delay another. They are
// not called concurrently with each other, except Parse.
type Detector interface {
	// Vendor names the detector; it is unique in a registry.
	Vendor() Vendor

	// Inventory asks for everything about the cards: identity, model, memory,
	// versions, measurements, capabilities, topology. It is called at the start,
	// every few minutes, when Collect shows other cards than before and after a
	// slice operation; so it may run several commands.
	//
	// An error that wraps tool.ErrNotInstalled means "not this vendor". Any
	// other error becomes the vendor's collector error. Failures that leave
	// something to report belong into the Report.
	Inventory(ctx context.Context) (Report, error)

	// Collect is one round of the heartbeat: which cards are there and their
	// measurements, with as few commands as the tool allows. Fields of Device
	// that it leaves absent are filled from the last Inventory by identity.
	// Errors are as for Inventory.
	Collect(ctx context.Context) (Report, error)

	// Parse says what one output of one command means: any form of the vendor's
	// tools, from the machine or pasted by a user. argv may be more than the
	// tool (docker run …, echo … | tool): see text.ToolArgs. An error means that
	// the form is not known. Parse is safe for concurrent use, never panics and
	// never invents a card.
	Parse(argv []string, exitCode int, output []byte) (Parsed, error)

	// Commands are the argument vectors whose outputs a bug report needs, beside
	// those that Inventory and Collect run. Their first words are the vendor's
	// tools, the first of all one that no other maker has: a recorded command
	// is the vendor's when its name is among them.
	Commands() [][]string
}

// Report is what one round of one vendor gave.
type Report struct {
	Vendor         Vendor          `json:"vendor"`
	DriverVersion  string          `json:"driver_version,omitempty"`
	Devices        []Device        `json:"gpus,omitempty"`
	Stats          []Stats         `json:"gpu_stats,omitempty"`
	Failures       []Failure       `json:"gpu_collect_failures,omitempty"`
	CollectorError *CollectorError `json:"gpu_collector_error,omitempty"`
	Topology       *Topology       `json:"gpu_topology,omitempty"`
	// Capabilities hold for the round in which they were confirmed: they are not
	// carried over from an Inventory to later Collects.
	Capabilities []Capability `json:"gpu_capabilities,omitempty"`

	// Set by the Registry.
	At     time.Time `json:"at"` // when the round ended
	Absent bool      `json:"-"`  // the vendor's tool is not installed
}
