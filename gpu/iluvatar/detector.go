package iluvatar

import (
	"context"
	"path"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

const toolName = "ixsmi"

// Detector asks ixsmi. Collect runs one command, the query as XML.
type Detector struct{ run tool.Runner }

// New returns a Detector.
func New(r tool.Runner) *Detector { return &Detector{run: r} }

// Vendor implements gpu.Detector.
func (d *Detector) Vendor() gpu.Vendor { return gpu.Iluvatar }

// Parse implements gpu.Detector; see Parse.
func (d *Detector) Parse(argv []string, exitCode int, output []byte) (gpu.Parsed, error) {
	return Parse(argv, exitCode, output)
}

// Commands implements gpu.Detector.
func (d *Detector) Commands() [][]string {
	return [][]string{
		{toolName},
		{toolName, "-q", "-x"},
		{toolName, "-q"},
		{toolName, "-L"},
		{toolName, "topo", "-m"},
		{toolName, "ixlink", "-s"},
		{toolName, "--help-query-gpu"},
	}
}

// command returns a call of the tool with the libraries beside it, which are in
// no standard place.
func (d *Detector) command() (func(args ...string) tool.Command, error) {
	found, err := d.run.Find(toolName)
	if err != nil {
		return nil, err
	}
	env := []string{"LD_LIBRARY_PATH=/usr/local/corex/lib64:/usr/local/corex/lib"}
	if root := path.Dir(path.Dir(found)); root != "/usr" && root != "/" && root != "." {
		env = []string{"LD_LIBRARY_PATH=" + root + "/lib64:" + root + "/lib"}
	}
	return func(args ...string) tool.Command {
		return tool.Command{Name: toolName, Args: args, Env: env}
	}, nil
}

// Collect implements gpu.Detector. Where XML fails, the table is asked.
func (d *Detector) Collect(ctx context.Context) (gpu.Report, error) {
	smi, err := d.command()
	if err != nil {
		return gpu.Report{}, err
	}
	r, err := gpu.Survey(ctx, gpu.Iluvatar, d.run, Parse, smi("-q", "-x"))
	if err != nil || r.CollectorError == nil {
		return r, err
	}
	table, err := gpu.Survey(ctx, gpu.Iluvatar, d.run, Parse, smi())
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
	smi, err := d.command()
	if err != nil {
		return gpu.Report{}, err
	}
	r, err := gpu.Survey(ctx, gpu.Iluvatar, d.run, Parse, smi("-q", "-x"), smi(), smi("-L"), smi("topo", "-m"))
	if err == nil && len(r.Devices) > 0 { // the table answers where XML does not
		r.CollectorError = nil
	}
	return r, err
}
