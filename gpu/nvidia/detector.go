package nvidia

import (
	"context"
	"errors"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/nvidia/mps"
	"github.com/heteroflow/node-agent/gpu/nvidia/smi"
	"github.com/heteroflow/node-agent/gpu/nvidia/xid"
	"github.com/heteroflow/node-agent/gpu/text"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// The kinds of slices of a card.
const (
	SliceMIG = "nvidia-mig"
	SliceMPS = "nvidia-mps"
)

// Detector implements gpu.Detector.
type Detector struct {
	run     tool.Runner
	sources []Source
	faults  faults
	mps     bool // the MPS control daemon answered when there was time to ask it
}

// New returns a Detector that asks the sources in turn: the first that is
// installed answers. Without sources it reads nvidia-smi's text.
func New(r tool.Runner, sources ...Source) *Detector {
	if len(sources) == 0 {
		sources = []Source{NewText(r)}
	}
	return &Detector{run: r, sources: sources}
}

// Vendor implements gpu.Detector.
func (d *Detector) Vendor() gpu.Vendor { return gpu.NVIDIA }

// Inventory implements gpu.Detector.
func (d *Detector) Inventory(ctx context.Context) (gpu.Report, error) {
	reading, err := d.ask(ctx, Source.Inventory)
	if err != nil {
		return reading.Report, err
	}
	return d.judge(ctx, reading, true), nil
}

// Collect implements gpu.Detector: one command; a second one, which does not
// touch the driver, where an MPS daemon was seen.
func (d *Detector) Collect(ctx context.Context) (gpu.Report, error) {
	reading, err := d.ask(ctx, Source.Collect)
	if err != nil {
		return reading.Report, err
	}
	return d.judge(ctx, reading, d.mps), nil
}

// ask asks the first source that is there.
func (d *Detector) ask(ctx context.Context, question func(Source, context.Context) (Reading, error)) (Reading, error) {
	var reading Reading
	var err error
	for _, s := range d.sources {
		if reading, err = question(s, ctx); !errors.Is(err, tool.ErrNotInstalled) {
			break
		}
	}
	return reading, err
}

// judge completes a reading with what the sources do not say.
func (d *Detector) judge(ctx context.Context, r Reading, askMPS bool) gpu.Report {
	d.faults.apply(&r)
	answers := askMPS && len(r.Devices) > 0 && MPS{Run: d.run}.asked(ctx) == nil
	if askMPS && ctx.Err() == nil {
		d.mps = answers
	}
	r.Capabilities = capabilities(r.Devices, r.Failures, answers)
	return r.Report
}

// capabilities says how each card can be shared. A card in MIG mode cannot by
// the host's MPS daemon, which does not serve its instances; a failed card
// cannot by it either.
func capabilities(devices []gpu.Device, failures []gpu.Failure, mpsAnswers bool) []gpu.Capability {
	var list []gpu.Capability
	for _, dev := range devices {
		if dev.Index == nil {
			continue
		}
		c := gpu.Capability{Index: dev.Index}
		switch {
		case dev.MIGMode == gpu.MIGEnabled:
			c.MIGCapable, c.SliceKinds = true, []string{SliceMIG}
		case mpsAnswers && !failed(dev, failures):
			c.MPSCapable, c.SliceKinds = true, []string{SliceMPS}
		}
		list = append(list, c)
	}
	return list
}

// Parse implements gpu.Detector.
func (d *Detector) Parse(argv []string, exitCode int, output []byte) (gpu.Parsed, error) {
	return Parse(argv, exitCode, output)
}

// Commands implements gpu.Detector.
func (d *Detector) Commands() [][]string {
	return [][]string{
		{smiTool},
		{smiTool, "-L"},
		{smiTool, "-q"},
		{smiTool, "mig", "-lgi"},
		{smiTool, "mig", "-lci"},
		{smiTool, "mig", "-lgip"},
		{smiTool, "mig", "-lgipp"},
		{smiTool, "nvlink", "-s"},
		{smiTool, "--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv"},
		{mps.Tool}, // without input it only says whether there is a daemon
	}
}

// Parse reads one output of nvidia-smi, of the MPS control program, or an
// excerpt of the kernel log with the driver's messages.
func Parse(argv []string, exitCode int, output []byte) (gpu.Parsed, error) {
	if _, ok := text.ToolArgs(argv, smiTool); !ok {
		if p, ok, err := mps.Parse(argv, exitCode, output); ok {
			return p, err
		}
		if events, ok := xid.ParseKernel(text.Lines(output)); ok {
			return gpu.Parsed{Events: events}, nil
		}
	}
	res, err := smi.Parse(argv, exitCode, output)
	res.Capabilities = capabilities(res.GPUs, res.Failures, false)
	return res.Parsed, err
}
