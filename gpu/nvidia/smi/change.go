package smi

import (
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// change is one kind of line of the create and destroy commands. They act on a
// list one by one and stop at the first that fails: every line counts.
type change struct {
	pattern *text.Pattern
	note    func(r *gpu.MIGResult, m []string)
}

// Drivers differ in case and in the blanks before numbers, and older ones do not
// name the compute instance that they made.
var changes = []change{
	{
		text.Lazy(`(?i)^Successfully created GPU instance ID\s+(\d+) on GPU\s+(\d+) using profile (?:MIG\s+)?(\S+) \(ID\s+(\d+)\)`),
		func(r *gpu.MIGResult, m []string) {
			r.CreatedGI = append(r.CreatedGI, gpu.MIGRef{
				GPU: number(m[2]), GI: number(m[1]), Profile: m[3], ProfileID: text.Natural(m[4]),
			})
		},
	},
	{
		text.Lazy(`(?i)^Successfully created compute instance(?: ID\s+(\d+))? on GPU\s+(\d+) GPU instance ID\s+(\d+)`),
		func(r *gpu.MIGResult, m []string) {
			r.CreatedCI = append(r.CreatedCI, gpu.MIGRef{GPU: number(m[2]), GI: number(m[3]), CI: text.Natural(m[1])})
		},
	},
	{
		text.Lazy(`(?i)^Successfully destroyed compute instance ID\s+(\d+) from GPU\s+(\d+) GPU instance ID\s+(\d+)`),
		func(r *gpu.MIGResult, m []string) {
			r.DestroyedCI = append(r.DestroyedCI, gpu.MIGRef{GPU: number(m[2]), GI: number(m[3]), CI: text.Natural(m[1])})
		},
	},
	{
		text.Lazy(`(?i)^Successfully destroyed GPU instance ID\s+(\d+) from GPU\s+(\d+)`),
		func(r *gpu.MIGResult, m []string) {
			r.DestroyedGI = append(r.DestroyedGI, gpu.MIGRef{GPU: number(m[2]), GI: number(m[1])})
		},
	},
	{
		text.Lazy(`(?i)^Unable to create a (?:GPU|compute) instance on GPU\s+\d+ (?:GPU instance ID\s+\d+ )?using profile (?:MIG\s+)?([^\s:]\S*?): (.*)$`),
		func(r *gpu.MIGResult, m []string) { r.FailedProfile, r.Error = m[1], nvmlCode(m[2]) },
	},
	{
		text.Lazy(`(?i)^Unable to destroy compute instance ID\s+(\d+) from GPU\s+(\d+) GPU instance ID\s+(\d+): (.*)$`),
		func(r *gpu.MIGResult, m []string) {
			r.FailedCI = append(r.FailedCI, gpu.MIGRef{GPU: number(m[2]), GI: number(m[3]), CI: text.Natural(m[1])})
			r.Error = nvmlCode(m[4])
		},
	},
	{
		text.Lazy(`(?i)^Unable to destroy GPU instance ID\s+(\d+) from GPU\s+(\d+): (.*)$`),
		func(r *gpu.MIGResult, m []string) {
			r.FailedGI = append(r.FailedGI, gpu.MIGRef{GPU: number(m[2]), GI: number(m[1])})
			r.Error = nvmlCode(m[3])
		},
	},
	{
		text.Lazy(`(?i)^Failed to (?:create|destroy) (?:GPU|compute) instances?: (.*)$`),
		func(r *gpu.MIGResult, m []string) {
			if r.Error == "" {
				r.Error = nvmlCode(m[1])
			}
		},
	},
}

var (
	modeDone    = text.Lazy(`(?i)^(?:Enabled|Disabled) MIG Mode for GPU ` + bus)
	modePending = text.Lazy(`(?i)^Warning: MIG mode is in pending (?:enable|disable) state for GPU ` + bus)
	modeRefused = text.Lazy(`(?i)^Unable to (?:enable|disable) MIG Mode for GPU ` + bus)
)

// readChange reads what a create, destroy or mode command answered.
func (d *document) readChange() bool {
	var r gpu.MIGResult
	known := false
	for _, line := range d.lines {
		for _, c := range changes {
			if m := c.pattern.FindStringSubmatch(line); m != nil {
				c.note(&r, m)
				known = true
				break
			}
		}
		d.modeLine(line)
	}
	if known {
		r.OK = r.Error == ""
		d.mig().Result = &r
	}
	return known || d.parsed.MIG != nil && d.parsed.MIG.ModeChange != nil
}

// modeLine reads the answer of "-mig 0|1". "All done." follows a pending change
// as well, and a pending change is none yet.
func (d *document) modeLine(line string) {
	for _, kind := range []struct {
		pattern     *text.Pattern
		ok, pending bool
	}{{modeDone, true, false}, {modePending, true, true}, {modeRefused, false, false}} {
		m := kind.pattern.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		change := gpu.MIGModeChange{OK: kind.ok, Pending: kind.pending, BusID: text.BusID(m[1])}
		// A pending warning comes beside the line that claims success.
		if have := d.mig().ModeChange; have == nil || !have.Pending || have.BusID != change.BusID {
			d.mig().ModeChange = &change
		}
	}
}
