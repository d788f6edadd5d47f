// Package virtual is the type of a node on which no accelerator was found: one
// device that stands for "tasks without a card". It measures nothing, runs
// nothing and starts no goroutine.
package virtual

import (
	"context"
	"errors"

	"github.com/heteroflow/node-agent/gpu"
)

// CardEnv is the environment variable that tells a task which virtual device it was given:
// there is nothing else of it in a container.
const CardEnv = "HETEROFLOW_VIRTUAL_GPU"

// Detector always finds the one virtual device. The registry reports it only
// when no other detector found a card, a failing tool or a card on the bus.
type Detector struct{}

// New returns the fallback detector.
func New() Detector { return Detector{} }

// Vendor implements gpu.Detector.
func (Detector) Vendor() gpu.Vendor { return gpu.Virtual }

// Inventory implements gpu.Detector.
func (Detector) Inventory(context.Context) (gpu.Report, error) {
	return gpu.Report{
		Vendor: gpu.Virtual,
		Devices: []gpu.Device{{
			Index: new(0), UUID: "virtual-0", Vendor: gpu.Virtual, Type: gpu.Virtual, Model: "Virtual GPU",
		}},
	}, nil
}

// Collect implements gpu.Detector.
func (d Detector) Collect(ctx context.Context) (gpu.Report, error) { return d.Inventory(ctx) }

// Parse implements gpu.Detector: there is no tool, so nothing is its output.
func (Detector) Parse([]string, int, []byte) (gpu.Parsed, error) {
	return gpu.Parsed{}, errors.New("a virtual GPU has no tool")
}

// Commands implements gpu.Detector.
func (Detector) Commands() [][]string { return nil }
