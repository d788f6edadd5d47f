package musa

import (
	"context"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

const toolName = "mthreads-gmi"

// Detector asks mthreads-gmi. Collect runs one command, the query as JSON.
type Detector struct{ run tool.Runner }

// New returns a Detector.
func New(r tool.Runner) *Detector { return &Detector{run: r} }

// Vendor implements gpu.Detector.
func (d *Detector) Vendor() gpu.Vendor { return gpu.MUSA }

// Parse implements gpu.Detector; see Parse.
func (d *Detector) Parse(argv []string, exitCode int, output []byte) (gpu.Parsed, error) {
	return Parse(argv, exitCode, output)
}

// Commands implements gpu.Detector.
func (d *Detector) Commands() [][]string {
	return [][]string{
		{toolName},
		{toolName, "-q"},
		{toolName, "-q", "--json"},
		{toolName, "-L"},
		{toolName, "-v"},
		{toolName, "topo", "-m"},
		{toolName, "mtlink", "-s"},
	}
}

func command(args ...string) tool.Command { return tool.Command{Name: toolName, Args: args} }

// Collect implements gpu.Detector. A tool too old for JSON is asked for its table.
func (d *Detector) Collect(ctx context.Context) (gpu.Report, error) {
	r, err := gpu.Survey(ctx, gpu.MUSA, d.run, Parse, command("-q", "--json"))
	if err != nil || r.CollectorError == nil {
		return r, err
	}
	table, err := gpu.Survey(ctx, gpu.MUSA, d.run, Parse, command())
	if err != nil {
		return gpu.Report{}, err
	}
	if table.CollectorError == nil {
		r = table
	}
	return r, nil
}

// Inventory implements gpu.Detector.
func (d *Detector) Inventory(ctx context.Context) (gpu.Report, error) {
	r, err := gpu.Survey(ctx, gpu.MUSA, d.run, Parse, command("-q", "--json"), command(), command("topo", "-m"))
	if err == nil && len(r.Devices) > 0 { // the table answers where JSON does not exist
		r.CollectorError = nil
	}
	return r, err
}
