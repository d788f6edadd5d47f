package hygon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
	"github.com/heteroflow/node-agent/gpu/tool"
)

const (
	toolName    = "hy-smi"
	oldToolName = "rocm-smi"
	virtualName = "hy-virtual"
)

// Detector asks hy-smi, or rocm-smi where that is Hygon's. Collect runs three
// commands: the table has no memory sizes, JSON no power limit and no mode, and
// that a card can be sliced must be confirmed each time.
type Detector struct{ run tool.Runner }

// New returns a Detector.
func New(r tool.Runner) *Detector { return &Detector{run: r} }

// Vendor implements gpu.Detector.
func (d *Detector) Vendor() gpu.Vendor { return gpu.Hygon }

// Parse implements gpu.Detector; see Parse.
func (d *Detector) Parse(argv []string, exitCode int, output []byte) (gpu.Parsed, error) {
	return Parse(argv, exitCode, output)
}

// values is the JSON query of everything about the cards that changes or names
// them; each of these options exists in every hy-smi and in Hygon's rocm-smi.
var values = []string{
	"--showid", "--showproductname", "--showmeminfo", "vram", "--showuse", "--showtemp", "--showpower",
	"--showuniqueid", "--showserial", "--json",
}

// Commands implements gpu.Detector.
func (d *Detector) Commands() [][]string {
	return [][]string{
		{toolName},
		{oldToolName},
		append([]string{toolName}, values...),
		{toolName, "--showbus", "--json"},
		{toolName, "--showdriverversion"},
		{toolName, "--showtopo"},
		{toolName, "--showpids"},
		{toolName, "--showrasinfo"},
		{toolName, "--healthcheck"},
		{toolName, "--mig"},
		{toolName, "virtual", "-show-device-info"},
		{virtualName, "-show-device-info"},
	}
}

// Collect implements gpu.Detector.
func (d *Detector) Collect(ctx context.Context) (gpu.Report, error) {
	name, err := d.tool(ctx)
	if err != nil {
		return gpu.Report{}, err
	}
	r, err := gpu.Survey(ctx, gpu.Hygon, d.run, Parse,
		tool.Command{Name: name}, tool.Command{Name: name, Args: values})
	if err != nil {
		return r, err
	}
	return r, d.slices(ctx, name, &r)
}

// Inventory implements gpu.Detector.
func (d *Detector) Inventory(ctx context.Context) (gpu.Report, error) {
	name, err := d.tool(ctx)
	if err != nil {
		return gpu.Report{}, err
	}
	command := func(args ...string) tool.Command { return tool.Command{Name: name, Args: args} }
	r, err := gpu.Survey(ctx, gpu.Hygon, d.run, Parse, command(), command(values...),
		command("--showbus", "--json"), command("--showtopo"), command("--healthcheck"))
	if err != nil {
		return r, err
	}
	if err := d.driver(ctx, name, &r); err != nil {
		return r, err
	}
	return r, d.slices(ctx, name, &r)
}

// tool returns the name of the tool. A rocm-smi that is not Hygon's is as good
// as none: it is Hygon's when it lies in its toolkit or prints its words.
func (d *Detector) tool(ctx context.Context) (string, error) {
	name, err := tool.FindFirst(d.run, toolName, oldToolName)
	if err != nil || name == toolName {
		return name, err
	}
	path, err := d.run.Find(oldToolName)
	if err != nil {
		return "", err
	}
	if strings.Contains(path, "/dtk") || strings.Contains(path, "/hyhal") {
		return name, nil
	}
	res, err := d.run.Run(ctx, tool.Command{Name: oldToolName})
	if err != nil {
		return "", err
	}
	if !isHygon(res.Output()) {
		return "", fmt.Errorf("%s is not Hygon's: %w", path, tool.ErrNotInstalled)
	}
	return name, nil
}

// driver asks for the driver's version, which is printed without a card.
func (d *Detector) driver(ctx context.Context, name string, r *gpu.Report) error {
	res, err := d.run.Run(ctx, tool.Command{Name: name, Args: []string{"--showdriverversion"}})
	if err != nil {
		return hung(err)
	}
	r.DriverVersion = cmp.Or(driverVersion(text.Lines(res.Output())), r.DriverVersion)
	for i := range r.Devices {
		r.Devices[i].DriverVersion = cmp.Or(r.Devices[i].DriverVersion, r.DriverVersion)
	}
	return nil
}

// sliceKind is the agent's way to share a DCU, through virtual DCUs.
const sliceKind = "hygon-hami"

// slices confirms that virtual DCUs can be made: the runtime for them answers
// and knows the card. A card in MIG mode is sliced in hardware already.
func (d *Detector) slices(ctx context.Context, name string, r *gpu.Report) error {
	if len(r.Devices) == 0 {
		return nil
	}
	p, err := gpu.Ask(ctx, d.run, Parse, tool.Command{Name: name, Args: []string{"virtual", "-show-device-info"}})
	if err != nil {
		return hung(err)
	}
	known := map[int]bool{}
	for _, g := range p.GPUs {
		known[*g.Index] = g.MemoryTotal != nil
	}
	for _, g := range r.Devices {
		if g.Index != nil && known[*g.Index] && g.MIGMode != gpu.MIGEnabled && p.CollectorError == nil {
			r.Capabilities = append(r.Capabilities, gpu.Capability{Index: g.Index, SliceKinds: []string{sliceKind}})
		}
	}
	return nil
}

// hung returns the error of a query that may fail if it must end the round all
// the same: the driver hangs.
func hung(err error) error {
	if e, ok := errors.AsType[*tool.HungError](err); ok {
		return e
	}
	return nil
}
