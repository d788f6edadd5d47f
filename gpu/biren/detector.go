package biren

import (
	"cmp"
	"context"
	"errors"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
	"github.com/heteroflow/node-agent/gpu/tool"
)

const toolName = "brsmi"

// Detector asks brsmi. Collect runs one command, the query of the fields that
// are known to exist together: one that does not exist may fail the query.
type Detector struct{ run tool.Runner }

// New returns a Detector.
func New(r tool.Runner) *Detector { return &Detector{run: r} }

// Vendor implements gpu.Detector.
func (d *Detector) Vendor() gpu.Vendor { return gpu.Biren }

// Parse implements gpu.Detector; see Parse.
func (d *Detector) Parse(argv []string, exitCode int, output []byte) (gpu.Parsed, error) {
	return Parse(argv, exitCode, output)
}

const format = "--format=csv,noheader,nounits"

// command returns a call of the tool, whose library need not be in the linker's
// cache (HAMi's document on Biren mounts the directory).
func command(args ...string) tool.Command {
	return tool.Command{
		Name: toolName, Args: args, Env: []string{"LD_LIBRARY_PATH=/usr/local/birensupa/driver/biren-smi/lib"},
	}
}

// query returns a call of the tool for some fields.
func query(fields string) tool.Command { return command("gpu", "--query-gpu="+fields, format) }

const fields = "index,memory.used,memory.free,svi.mode.current,serial,temperature.gpu"

// Commands implements gpu.Detector: everything that is known to exist, because
// nobody has shown yet what it prints.
func (d *Detector) Commands() [][]string {
	return [][]string{
		{toolName},
		{toolName, "--version"},
		{toolName, "gpu", "list"},
		{toolName, "gpu", "query"},
		{toolName, "gpu", "query", "-x"},
		query(fields).Argv(),
		{toolName, "topo", "-m"},
	}
}

// Collect implements gpu.Detector.
func (d *Detector) Collect(ctx context.Context) (gpu.Report, error) {
	return gpu.Survey(ctx, gpu.Biren, d.run, Parse, query(fields))
}

// Inventory implements gpu.Detector. Fields that may not exist are asked for one
// by one.
func (d *Detector) Inventory(ctx context.Context) (gpu.Report, error) {
	r, err := gpu.Survey(ctx, gpu.Biren, d.run, Parse, query(fields),
		query("index,name"), query("index,memory.total"), query("index,uuid"), query("index,pci.bus_id"),
		query("index,utilization.gpu"), query("index,power.draw"))
	if err != nil || len(r.Devices) == 0 {
		return r, err
	}
	return r, d.driver(ctx, &r)
}

// banner is all that is known of what plain "brsmi" prints.
var banner = text.Lazy(`BR-SMI\s+\S+.*Driver Version:\s*(\S+)`)

// driver takes the driver's version from the banner, if there is one.
func (d *Detector) driver(ctx context.Context, r *gpu.Report) error {
	res, err := d.run.Run(ctx, command())
	if err != nil {
		return stuck(ctx, err)
	}
	if m := banner.FindSubmatch(res.Output()); m != nil {
		r.DriverVersion = text.String(string(m[1]))
	}
	for i := range r.Devices {
		r.Devices[i].DriverVersion = cmp.Or(r.Devices[i].DriverVersion, r.DriverVersion)
	}
	return nil
}

// stuck returns err when a query that may fail must end the round all the same:
// the driver hangs, or there is no time left.
func stuck(ctx context.Context, err error) error {
	if _, hung := errors.AsType[*tool.HungError](err); hung || ctx.Err() != nil {
		return err
	}
	return nil
}
