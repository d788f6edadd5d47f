package smi

import (
	"strconv"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// The titles of the four tables of "nvidia-smi mig".
const (
	titleProfiles         = "GPU instance profiles:"
	titleInstances        = "GPU instances:"
	titleComputeInstances = "Compute instances:"
	titleComputeProfiles  = "Compute instance profiles:"
)

var (
	profileRow  = text.Lazy(`^(\d+)\s+(?:MIG\s+)?(\S+)\s+(\d+)\s+(\d+)/(\d+)\s+(\S+)\s+\S+\s+(\d+)\b`)
	instanceRow = text.Lazy(`^(\d+)\s+(?:MIG\s+)?(\S+)\s+(\d+)\s+(\d+)\s+(\d+):(\d+)$`)
	computeRow  = text.Lazy(`^(\d+)\s+(\d+)\s+(?:MIG\s+)?(\S+)\s+\d+\*?\s+(\d+)\s+\d+:\d+$`)
	placement   = text.Lazy(`^\s*GPU\s+(\d+)\s+Profile ID\s+(\d+)\s+Placements?\s*:\s*\{([\d,\s]*)\}:(\d+)`)
	nothing     = text.Lazy(`(?i)^\s*No (?:(?:GPU|compute) instances found(?:: Not Found|\.|\s*$)|MIG-(?:enabled|supported) devices found)`)
)

// readMIG reads the listings of "nvidia-smi mig" and the answers of its create
// and destroy commands.
func (d *document) readMIG() bool {
	if d.readChange() {
		return true
	}
	title, known := "", false
	for _, line := range d.lines {
		cells := text.Cells(line)
		switch {
		case len(cells) == 1 && isTitle(cells[0]):
			title, known = cells[0], true
			d.mig()
		case len(cells) == 1 && title != "":
			d.migCell(title, cells[0])
		case placement.MatchString(line):
			known = true
			d.placement(line)
		case nothing.MatchString(line):
			known = true
			d.mig()
		}
	}
	return known
}

func isTitle(cell string) bool {
	switch cell {
	case titleProfiles, titleInstances, titleComputeInstances, titleComputeProfiles:
		return true
	}
	return false
}

// migCell reads one row; the second line of a profile and the headings match
// nothing. Profiles of compute instances are nothing that the agent acts on.
func (d *document) migCell(title, cell string) {
	m := d.mig()
	switch title {
	case titleProfiles:
		if f := profileRow.FindStringSubmatch(cell); f != nil {
			m.Profiles = append(m.Profiles, gpu.MIGProfile{
				GPU: number(f[1]), Profile: f[2], ID: number(f[3]), Free: number(f[4]), Total: number(f[5]),
				MemoryGiB: text.Float(f[6], "", "GiB"), SM: text.Natural(f[7]),
			})
		}
	case titleInstances:
		if f := instanceRow.FindStringSubmatch(cell); f != nil {
			m.GIs = append(m.GIs, gpu.GPUInstance{
				GPU: number(f[1]), Profile: f[2], ProfileID: number(f[3]), GI: number(f[4]),
				Start: number(f[5]), Size: number(f[6]),
			})
		}
	case titleComputeInstances:
		if f := computeRow.FindStringSubmatch(cell); f != nil {
			m.Devices = append(m.Devices, gpu.MIGDevice{
				GPU: text.Natural(f[1]), GI: text.Natural(f[2]), Profile: f[3], CI: text.Natural(f[4]),
			})
		}
	}
}

func (d *document) placement(line string) {
	f := placement.FindStringSubmatch(line)
	p := gpu.MIGPlacement{GPU: number(f[1]), ProfileID: number(f[2]), Size: number(f[4])}
	for s := range strings.SplitSeq(f[3], ",") {
		if n := text.Natural(strings.TrimSpace(s)); n != nil {
			p.Starts = append(p.Starts, *n)
		}
	}
	d.mig().Placements = append(d.mig().Placements, p)
}

// number is for digits that an expression has matched; too many are no number
// of anything and give -1.
func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}
