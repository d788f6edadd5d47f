package cambricon

import (
	"context"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// Detector asks cnmon. Collect runs one command, "cnmon info".
type Detector struct{ run tool.Runner }

// New returns a Detector.
func New(r tool.Runner) *Detector { return &Detector{run: r} }

// Vendor implements gpu.Detector.
func (d *Detector) Vendor() gpu.Vendor { return gpu.Cambricon }

// Parse implements gpu.Detector; see Parse.
func (d *Detector) Parse(argv []string, exitCode int, output []byte) (gpu.Parsed, error) {
	return Parse(argv, exitCode, output)
}

// Commands implements gpu.Detector.
func (d *Detector) Commands() [][]string {
	return [][]string{
		{toolName},
		{toolName, "info"},
		{toolName, "-l"},
		{toolName, "topo", "-m"},
		{toolName, "mlulink", "-s"},
		{toolName, "smlu"},
		{toolName, "version"},
	}
}

func command(args ...string) tool.Command { return tool.Command{Name: toolName, Args: args} }

// Collect implements gpu.Detector. Where "cnmon info" fails, the table is asked.
func (d *Detector) Collect(ctx context.Context) (gpu.Report, error) {
	r, err := gpu.Survey(ctx, gpu.Cambricon, d.run, Parse, command("info"))
	if err != nil || r.CollectorError == nil {
		return r, err
	}
	table, err := gpu.Survey(ctx, gpu.Cambricon, d.run, Parse, command())
	if err != nil {
		return gpu.Report{}, err
	}
	if table.CollectorError == nil {
		r = table
	}
	return r, nil
}

// Inventory implements gpu.Detector. The table has the firmware, and in version
// 4 the power cap, that "cnmon info" leaves out.
func (d *Detector) Inventory(ctx context.Context) (gpu.Report, error) {
	r, err := gpu.Survey(ctx, gpu.Cambricon, d.run, Parse, command("info"), command(), command("topo", "-m"))
	if err != nil || r.CollectorError == nil {
		return r, err
	}
	if len(r.Devices) > 0 { // the table answered
		r.CollectorError = nil
	}
	return r, nil
}
