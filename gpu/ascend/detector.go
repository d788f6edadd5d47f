package ascend

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// Detector asks npu-smi. Collect runs one command, and one more for each chip
// that is not well, to learn why.
type Detector struct {
	run tool.Runner
	dev string
}

// New returns a Detector. dev is the directory of the device nodes, "/dev" or
// the host's below a host root.
func New(r tool.Runner, dev string) *Detector { return &Detector{run: r, dev: dev} }

// Vendor implements gpu.Detector.
func (d *Detector) Vendor() gpu.Vendor { return gpu.Ascend }

// Parse implements gpu.Detector; see Parse.
func (d *Detector) Parse(argv []string, exitCode int, output []byte) (gpu.Parsed, error) {
	return Parse(argv, exitCode, output)
}

// Commands implements gpu.Detector. They are about all cards: a query of one card
// numbers its devices from 0, and cannot be joined by index with the others.
func (d *Detector) Commands() [][]string {
	return [][]string{
		{toolName, "info"},
		{toolName, "info", "-m"},
		{toolName, "info", "-t", "topo"},
		{toolName, "info", "-t", "vnpu-mode"},
		{toolName, "info", "-t", "template-info"},
		{toolName, "-v"},
	}
}

// libraries makes npu-smi find libc_sec.so, which only lib64/common has, where
// no login shell has set the path.
const libraries = "LD_LIBRARY_PATH=/usr/local/Ascend/driver/lib64:/usr/local/Ascend/driver/lib64/common:" +
	"/usr/local/Ascend/driver/lib64/driver:/usr/local/dcmi"

func info(args ...string) tool.Command {
	return tool.Command{Name: toolName, Args: append([]string{"info"}, args...), Env: []string{libraries}}
}

func (d *Detector) ask(ctx context.Context, args ...string) (gpu.Parsed, error) {
	return gpu.Ask(ctx, d.run, Parse, info(args...))
}

// Collect implements gpu.Detector.
func (d *Detector) Collect(ctx context.Context) (gpu.Report, error) {
	p, err := d.cards(ctx)
	if err != nil {
		return gpu.Report{}, err
	}
	return gpu.Combine(gpu.Ascend, p), nil
}

// Inventory implements gpu.Detector. Beside Collect's commands it runs three,
// and one for each card.
func (d *Detector) Inventory(ctx context.Context) (gpu.Report, error) {
	p, err := d.cards(ctx)
	if err != nil {
		return gpu.Report{}, err
	}
	rows, err := d.mapping(ctx)
	if err != nil {
		return gpu.Combine(gpu.Ascend, p), err
	}
	d.number(p.GPUs, rows)
	if err := d.boards(ctx, p.GPUs); err != nil {
		return gpu.Combine(gpu.Ascend, p), err
	}
	if err := d.topology(ctx, &p); err != nil {
		return gpu.Combine(gpu.Ascend, p), err
	}
	return gpu.Combine(gpu.Ascend, p), nil
}

// cards returns every chip with its measurements.
func (d *Detector) cards(ctx context.Context) (gpu.Parsed, error) {
	p, err := d.ask(ctx)
	switch {
	case err != nil:
		return p, err
	case p.CollectorError != nil && p.CollectorError.Code == CodeCardQuery:
		return d.cardByCard(ctx, p)
	}
	return p, d.explain(ctx, &p)
}

// mapping asks which chips there are and how they are numbered.
func (d *Detector) mapping(ctx context.Context) ([]mapped, error) {
	res, err := d.run.Run(ctx, info("-m"))
	if err != nil {
		return nil, hung(err)
	}
	rows, _ := readMapping(text.Lines(res.Output()))
	return rows, nil
}

// number sets the numbers of the device nodes. /dev/davinciN is numbered by
// physical id. Where the tool tells only the logic id (310P, 910B), which counts
// the running chips, the two are the same exactly if every node has its chip;
// else they are left absent.
func (d *Detector) number(devices []gpu.Device, rows []mapped) {
	logic := map[int]bool{}
	for _, m := range rows {
		if m.logic != nil {
			logic[*m.logic] = true
		}
	}
	complete := len(logic) > 0 && maps.Equal(logic, d.nodes())
	for i := range devices {
		g := &devices[i]
		at := slices.IndexFunc(rows, func(m mapped) bool { return equal(m.card, g.Card) && equal(m.chip, g.Chip) })
		if at < 0 {
			continue
		}
		m := rows[at]
		g.Model = cmp.Or(g.Model, m.name)
		switch {
		case g.Minor != nil:
		case m.phy != nil:
			g.Minor = m.phy
		case complete:
			g.Minor = m.logic
		}
	}
}

// nodes returns the numbers N of the nodes davinciN.
func (d *Detector) nodes() map[int]bool {
	found := map[int]bool{}
	paths, err := filepath.Glob(filepath.Join(d.dev, "davinci[0-9]*"))
	if err != nil || d.dev == "" {
		return found
	}
	for _, p := range paths {
		if n := id(filepath.Base(p)[len("davinci"):]); n != nil {
			if _, err := os.Lstat(p); err == nil {
				found[*n] = true
			}
		}
	}
	return found
}

// boards fills in what only the card's own query says.
func (d *Detector) boards(ctx context.Context, devices []gpu.Device) error {
	for _, card := range cardsOf(devices) {
		p, err := d.ask(ctx, "-t", "board", "-i", fmt.Sprint(card))
		if err := hung(err); err != nil {
			return err
		}
		if err != nil {
			continue
		}
		for _, b := range p.GPUs {
			for i := range devices {
				g := &devices[i]
				if !equal(g.Card, b.Card) || b.Chip != nil && !equal(g.Chip, b.Chip) {
					continue
				}
				g.Serial, g.FirmwareVersion = cmp.Or(g.Serial, b.Serial), cmp.Or(g.FirmwareVersion, b.FirmwareVersion)
				g.DriverVersion = cmp.Or(g.DriverVersion, b.DriverVersion)
				g.BusID, g.UUID = cmp.Or(g.BusID, b.BusID), cmp.Or(g.UUID, b.UUID)
			}
		}
	}
	return nil
}

// topology asks for the matrix; virtual machines refuse it.
func (d *Detector) topology(ctx context.Context, p *gpu.Parsed) error {
	res, err := d.run.Run(ctx, info("-t", "topo"))
	if err != nil {
		return hung(err)
	}
	if m, ok := readTopology(text.Lines(res.Output())); ok {
		p.Topology = m.byIndex(p.GPUs)
	}
	return nil
}

// cardsOf returns the numbers of the cards, each once.
func cardsOf(devices []gpu.Device) []int {
	var cards []int
	for _, g := range devices {
		if g.Card != nil && !slices.Contains(cards, *g.Card) {
			cards = append(cards, *g.Card)
		}
	}
	return cards
}
