package kunlun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/tool"
)

const (
	toolName  = "xpu_smi"
	otherName = "xpu-smi" // Intel's tool has this name, too
)

// Detector asks xpu_smi. Collect runs one command, the table; two on the first
// generations, whose table may lack temperature and power.
type Detector struct{ run tool.Runner }

// New returns a Detector.
func New(r tool.Runner) *Detector { return &Detector{run: r} }

// Vendor implements gpu.Detector.
func (d *Detector) Vendor() gpu.Vendor { return gpu.Kunlun }

// Parse implements gpu.Detector; see Parse.
func (d *Detector) Parse(argv []string, exitCode int, output []byte) (gpu.Parsed, error) {
	return Parse(argv, exitCode, output)
}

// Commands implements gpu.Detector.
func (d *Detector) Commands() [][]string {
	return [][]string{
		{toolName},
		{otherName},
		{toolName, "-m"},
		{toolName, "-q"},
		{toolName, "-L"},
		{toolName, "topo", "-m"},
		{otherName, "-m"},
		{otherName, "-q"},
		{otherName, "-L"},
		{otherName, "topo", "-m"},
	}
}

// Collect implements gpu.Detector.
func (d *Detector) Collect(ctx context.Context) (gpu.Report, error) {
	return d.survey(ctx, func(table gpu.Parsed) [][]string {
		if slices.ContainsFunc(table.Stats, func(s gpu.Stats) bool { return s.Temperature != nil }) {
			return nil
		}
		return [][]string{{"-m"}}
	})
}

// Inventory implements gpu.Detector.
func (d *Detector) Inventory(ctx context.Context) (gpu.Report, error) {
	return d.survey(ctx, func(gpu.Parsed) [][]string { return [][]string{{"-m"}, {"-q"}, {"topo", "-m"}} })
}

// survey asks for the table, and then with each of the arguments that more
// returns. Where the table fails and another form lists the cards, that counts.
func (d *Detector) survey(ctx context.Context, more func(table gpu.Parsed) [][]string) (gpu.Report, error) {
	name, table, err := d.table(ctx)
	if err != nil {
		return gpu.Report{}, err
	}
	parts := []gpu.Parsed{table}
	for _, args := range more(table) {
		p, err := gpu.Ask(ctx, d.run, Parse, tool.Command{Name: name, Args: args})
		if hung, ok := errors.AsType[*tool.HungError](err); ok {
			return gpu.Combine(gpu.Kunlun, parts...), hung
		}
		if err != nil || p.CollectorError != nil {
			continue
		}
		if len(p.GPUs) > 0 {
			parts[0].CollectorError = nil
		}
		parts = append(parts, p)
	}
	return gpu.Combine(gpu.Kunlun, parts...), nil
}

// table finds the tool and asks for its table. An xpu-smi that is not Kunlunxin's
// is as good as none: it is when it lies in Kunlunxin's directories or prints
// their words.
func (d *Detector) table(ctx context.Context) (name string, p gpu.Parsed, err error) {
	name, err = tool.FindFirst(d.run, toolName, otherName)
	if err != nil {
		return "", p, err
	}
	path, err := d.run.Find(name)
	if err != nil {
		return "", p, err
	}
	res, err := d.run.Run(ctx, tool.Command{Name: name})
	if err != nil {
		return "", p, err
	}
	ours := name == toolName || strings.Contains(path, "/xpu/") || strings.Contains(path, "/xre/") ||
		isKunlun(res.Output())
	if !ours || isIntel(res.Output()) {
		return "", p, fmt.Errorf("%s is not Kunlunxin's: %w", path, tool.ErrNotInstalled)
	}
	return name, gpu.Understand(res, Parse), nil
}
