package ascend

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// accelerator is lspci's line of an Ascend card, with or without -D, in words,
// with -nn or with -n. The class tells it from Huawei's network cards and
// management VGA.
var accelerator = text.Lazy(`^((?:[0-9a-fA-F]{4,}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.0) ` +
	`(?:Processing accelerators(?: \[1200\])?: Huawei|1200: (?:19e5|20c6|203f|20e9):d[0-9a-f]{3}\b)`)

// parseLspci reads the cards out of lspci's list, which people add to a report
// to show what the bus holds when npu-smi shows less.
func parseLspci(lines []string, _ scope) (gpu.Parsed, bool) {
	var p gpu.Parsed
	for _, line := range lines {
		m := accelerator.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		d := device(len(p.GPUs))
		d.BusID = text.BusID(m[1])
		if !slices.ContainsFunc(p.GPUs, func(o gpu.Device) bool { return o.BusID == d.BusID }) {
			p.GPUs = append(p.GPUs, d)
		}
	}
	return p, len(p.GPUs) > 0
}
