package nvidia

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/nvidia/smi"
	"github.com/heteroflow/node-agent/gpu/text"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// smiTool is found by tool.Find in the odd places as well: WSL2 keeps it in
// /usr/lib/wsl/lib, off root's PATH.
const smiTool = "nvidia-smi"

// queryFields are asked in every round: one program start costs far more than a
// field. Those of basicFields are known to every driver since 319; a driver that
// does not know another refuses the whole query and quotes it.
var (
	basicFields = []string{
		"index", "uuid", "pci.bus_id", "name", "driver_version", "memory.total", "memory.used",
		"utilization.gpu", "temperature.gpu", "power.draw", "power.limit",
	}
	newerFields = []string{
		"enforced.power.limit", "serial", "vbios_version", "mig.mode.current", "gpu_recovery_action",
		"reset_status.reset_required", "ecc.errors.uncorrected.volatile.total", "retired_pages.pending", "remapped_rows.pending",
		"remapped_rows.failure",
	}
)

// Text is the Source that reads what nvidia-smi prints.
type Text struct {
	run     tool.Runner
	refused map[string]bool // fields that the driver does not know
	driver  string          // the version that refused them
	known   []gpu.Device    // the cards of the last round that had any
}

// NewText returns a Text that runs nvidia-smi through r.
func NewText(r tool.Runner) *Text { return &Text{run: r, refused: map[string]bool{}} }

// Collect implements Source with one command. Where a lost card keeps
// nvidia-smi from listing the others, it asks for these by name.
func (t *Text) Collect(ctx context.Context) (Reading, error) {
	parts, noAction, err := t.cards(ctx)
	return Reading{Report: gpu.Combine(gpu.NVIDIA, parts...), NoAction: noAction}, err
}

// Inventory implements Source.
func (t *Text) Inventory(ctx context.Context) (Reading, error) {
	parts, noAction, err := t.cards(ctx)
	if err != nil || len(parts[0].GPUs) == 0 {
		return Reading{Report: gpu.Combine(gpu.NVIDIA, parts...), NoAction: noAction}, err
	}
	commands := [][]string{{"-q", "-x"}, {"topo", "-m"}}
	if slices.ContainsFunc(parts[0].GPUs, func(d gpu.Device) bool { return d.MIGMode == gpu.MIGEnabled }) {
		commands = append(commands, []string{"-L"}) // the only one with the instances' uuids
	}
	for _, args := range commands {
		p, err := t.further(ctx, args...)
		if err != nil {
			return Reading{Report: gpu.Combine(gpu.NVIDIA, parts...), NoAction: noAction}, err
		}
		renumber(&p, parts[0].GPUs)
		parts = append(parts, p)
	}
	placeInstances(parts)
	return Reading{Report: gpu.Combine(gpu.NVIDIA, parts...), NoAction: noAction}, nil
}

// cards asks for the cards, and by name for those that an error hides.
func (t *Text) cards(ctx context.Context) ([]gpu.Parsed, []string, error) {
	p, noAction, err := t.query(ctx)
	if err != nil {
		return nil, nil, err
	}
	parts := []gpu.Parsed{p}
	if len(p.GPUs) == 0 && len(p.Failures) > 0 {
		names, err := t.others(ctx, p.Failures)
		if err != nil {
			return parts, nil, err
		}
		if len(names) > 0 {
			rest, acquitted, err := t.query(ctx, "--id="+strings.Join(names, ","))
			if err != nil {
				return parts, nil, err
			}
			rest.CollectorError = nil // the failures are the answer
			parts, noAction = []gpu.Parsed{rest, p}, acquitted
		}
	}
	if cards := parts[0].GPUs; len(cards) > 0 {
		t.known = cards
	}
	return parts, noAction, nil
}

// others returns the uuids of the cards that no failure blames: those of an
// earlier round, or of -L, which lists them around the error.
func (t *Text) others(ctx context.Context, failures []gpu.Failure) ([]string, error) {
	cards := t.known
	if len(cards) == 0 {
		p, err := t.further(ctx, "-L")
		if err != nil {
			return nil, err
		}
		cards = p.GPUs
	}
	var names []string
	for _, c := range cards {
		blamed := slices.ContainsFunc(failures, func(f gpu.Failure) bool { return blames(f, c) })
		if c.UUID != "" && !blamed {
			names = append(names, c.UUID)
		}
	}
	return names, nil
}

// further runs a command that only adds to what the query said: what it does not
// answer, or answers too late, is absent. A hung one is an error.
func (t *Text) further(ctx context.Context, args ...string) (gpu.Parsed, error) {
	p, err := gpu.Ask(ctx, t.run, Parse, tool.Command{Name: smiTool, Args: args})
	if hung, ok := errors.AsType[*tool.HungError](err); ok {
		return gpu.Parsed{}, hung
	}
	if err != nil || p.CollectorError != nil {
		p = gpu.Parsed{}
	}
	return p, nil
}

var quotedField = text.Lazy(`"([^"]+)"`)

// query runs --query-gpu, again without each field that the driver refuses.
func (t *Text) query(ctx context.Context, options ...string) (gpu.Parsed, []string, error) {
	for {
		fields := slices.Clone(basicFields)
		for _, f := range newerFields {
			if !t.refused[f] {
				fields = append(fields, f)
			}
		}
		args := append([]string{"--query-gpu=" + strings.Join(fields, ","), "--format=csv,nounits"}, options...)
		var noAction []string
		parse := func(argv []string, exitCode int, output []byte) (gpu.Parsed, error) {
			res, err := smi.Parse(argv, exitCode, output)
			noAction = res.NoAction
			return res.Parsed, err
		}
		p, err := gpu.Ask(ctx, t.run, parse, tool.Command{Name: smiTool, Args: args})
		if err != nil {
			return gpu.Parsed{}, nil, err
		}
		if t.refuses(p.CollectorError) {
			continue // at most once a field
		}
		t.remember(p)
		return p, noAction, nil
	}
}

// refuses notes a field that the driver does not know.
func (t *Text) refuses(e *gpu.CollectorError) bool {
	if e == nil || e.Code != smi.CodeInvalidField {
		return false
	}
	m := quotedField.FindStringSubmatch(e.Message)
	if m == nil || !slices.Contains(newerFields, m[1]) || t.refused[m[1]] {
		return false
	}
	t.refused[m[1]] = true
	return true
}

// remember forgets what an earlier driver refused: a newer one may know it.
func (t *Text) remember(p gpu.Parsed) {
	if len(p.GPUs) == 0 || p.GPUs[0].DriverVersion == t.driver {
		return
	}
	if t.driver != "" {
		clear(t.refused)
	}
	t.driver = p.GPUs[0].DriverVersion
}

// renumber gives the cards of a part the numbers that the query gave them: "-q"
// does not print any, and counting fails where a lost card is left out.
func renumber(p *gpu.Parsed, known []gpu.Device) {
	numbers := map[int]*int{} // as counted → as printed
	for i := range p.GPUs {
		d := &p.GPUs[i]
		at := slices.IndexFunc(known, func(k gpu.Device) bool {
			return d.UUID != "" && d.UUID == k.UUID && d.BusID == k.BusID
		})
		if at < 0 || d.Index == nil {
			continue
		}
		numbers[*d.Index] = known[at].Index
		d.Index = known[at].Index
	}
	for i := range p.Stats {
		if s := &p.Stats[i]; s.Index != nil && numbers[*s.Index] != nil {
			s.Index = numbers[*s.Index]
		}
	}
	if p.MIG == nil {
		return
	}
	for i := range p.MIG.Devices {
		if m := &p.MIG.Devices[i]; m.GPU != nil && numbers[*m.GPU] != nil {
			m.GPU = numbers[*m.GPU]
		}
	}
}

// placeInstances gives each card of the first part the MIG devices of which the
// parts know different things.
func placeInstances(parts []gpu.Parsed) {
	var all []gpu.MIGDevice
	for _, p := range parts {
		if p.MIG == nil {
			continue
		}
		for _, m := range p.MIG.Devices {
			all = smi.JoinMIG(all, m)
		}
	}
	for i := range parts[0].GPUs {
		d := &parts[0].GPUs[i]
		if d.MIGMode != gpu.MIGEnabled {
			continue
		}
		for _, m := range all {
			if m.GPU != nil && d.Index != nil && *m.GPU == *d.Index {
				d.Instances = append(d.Instances, gpu.Instance{GI: m.GI, CI: m.CI, UUID: m.UUID, Profile: m.Profile})
			}
		}
	}
}
