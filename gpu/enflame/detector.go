package enflame

import (
	"context"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

const toolName = "efsmi"

// Detector asks efsmi. Collect runs one command, the query of the sections that
// name the cards or change.
type Detector struct{ run tool.Runner }

// New returns a Detector.
func New(r tool.Runner) *Detector { return &Detector{run: r} }

// Vendor implements gpu.Detector.
func (d *Detector) Vendor() gpu.Vendor { return gpu.Enflame }

// Parse implements gpu.Detector; see Parse.
func (d *Detector) Parse(argv []string, exitCode int, output []byte) (gpu.Parsed, error) {
	return Parse(argv, exitCode, output)
}

// Commands implements gpu.Detector.
func (d *Detector) Commands() [][]string {
	return [][]string{
		{toolName},
		{toolName, "-q"},
		{toolName, "-L"},
		{toolName, "--dmon", "-c", "1"},
		{toolName, "--ptopo"},
	}
}

func command(args ...string) tool.Command { return tool.Command{Name: toolName, Args: args} }

var measurements = command("-q", "-d", "DEVICE,POWER,TEMP,MEMORY,USAGE,PCIE")

// Collect implements gpu.Detector. Where the query fails, the table is asked.
func (d *Detector) Collect(ctx context.Context) (gpu.Report, error) {
	r, err := gpu.Survey(ctx, gpu.Enflame, d.run, Parse, measurements)
	if err != nil || r.CollectorError == nil {
		return r, err
	}
	table, err := gpu.Survey(ctx, gpu.Enflame, d.run, Parse, command())
	if err != nil {
		return gpu.Report{}, err
	}
	if table.CollectorError == nil {
		r = table
	}
	return r, nil
}

// Inventory implements gpu.Detector. The table has the firmware, the list the
// CPUs near each card.
func (d *Detector) Inventory(ctx context.Context) (gpu.Report, error) {
	r, err := gpu.Survey(ctx, gpu.Enflame, d.run, Parse, measurements, command(), command("-L"), command("-q"))
	if err == nil && len(r.Devices) > 0 { // the table answers where the query does not
		r.CollectorError = nil
	}
	return r, err
}
