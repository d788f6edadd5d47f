package metax

import (
	"context"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

const (
	toolName = "mx-smi"
	oemName  = "ht-smi"
)

// libraries is for drivers that are not in the linker's cache.
const libraries = "LD_LIBRARY_PATH=/opt/mxdriver/lib:/opt/maca/lib:/opt/hpcc/lib"

// Detector asks mx-smi. Collect runs one command, the table.
type Detector struct{ run tool.Runner }

// New returns a Detector.
func New(r tool.Runner) *Detector { return &Detector{run: r} }

// Vendor implements gpu.Detector.
func (d *Detector) Vendor() gpu.Vendor { return gpu.MetaX }

// Parse implements gpu.Detector; see Parse.
func (d *Detector) Parse(argv []string, exitCode int, output []byte) (gpu.Parsed, error) {
	return Parse(argv, exitCode, output)
}

// Commands implements gpu.Detector.
func (d *Detector) Commands() [][]string {
	return [][]string{
		{toolName},
		{oemName},
		{toolName, "-L"},
		{toolName, "-j"},
		{toolName, "--summary"},
		{toolName, "--count-ecc"},
		{toolName, "--show-unavailable-reason"},
		{toolName, "topo", "-m"},
		{toolName, "mxlk", "--show-state"},
		{toolName, "sgpu", "--show-usage"},
	}
}

// command returns a call of the tool under the name it has here.
func (d *Detector) command() (func(args ...string) tool.Command, error) {
	name, err := tool.FindFirst(d.run, toolName, oemName)
	return func(args ...string) tool.Command {
		return tool.Command{Name: name, Args: args, Env: []string{libraries}}
	}, err
}

// Collect implements gpu.Detector.
func (d *Detector) Collect(ctx context.Context) (gpu.Report, error) {
	smi, err := d.command()
	if err != nil {
		return gpu.Report{}, err
	}
	return gpu.Survey(ctx, gpu.MetaX, d.run, Parse, smi())
}

// Inventory implements gpu.Detector. The list has the uuids, the summary serial
// numbers and firmware.
func (d *Detector) Inventory(ctx context.Context) (gpu.Report, error) {
	smi, err := d.command()
	if err != nil {
		return gpu.Report{}, err
	}
	return gpu.Survey(ctx, gpu.MetaX, d.run, Parse, smi(), smi("-L"), smi("--summary"), smi("topo", "-m"))
}
