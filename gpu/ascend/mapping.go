package ascend

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// mapped is one chip of "npu-smi info -m".
type mapped struct {
	card, chip, logic, phy *int
	name                   string
}

// readMapping reads the columns of -m by their names: 910B has a logic id, 910C
// also a physical one, 950 a slot and a physical but no logic id. A row without
// any device id is another chip of the board: the Mcu, a 3559.
func readMapping(lines []string) (rows []mapped, ok bool) {
	var columns []string
	for _, line := range lines {
		if strings.Contains(line, "NPU ID") && strings.Contains(line, "Chip ID") {
			columns = mappingColumns(line)
			continue
		}
		fields := strings.Fields(line)
		if columns == nil || len(fields) < len(columns) {
			continue
		}
		cell := func(name string) string {
			i := slices.Index(columns, name)
			switch {
			case i < 0:
				return ""
			case i == len(columns)-1: // a name may have blanks
				return strings.Join(fields[i:], " ")
			}
			return fields[i]
		}
		m := mapped{
			card: id(cell("NPU ID")), chip: id(cell("Chip ID")),
			logic: id(cell("Chip Logic ID")), phy: id(cell("Chip Phy-ID")),
			name: text.String(cell("Chip Name")),
		}
		again := slices.ContainsFunc(rows, func(o mapped) bool { return equal(o.card, m.card) && equal(o.chip, m.chip) })
		if m.card != nil && m.chip != nil && (m.logic != nil || m.phy != nil) && !helperChip(m.name) && !again {
			rows = append(rows, m)
		}
	}
	return rows, columns != nil
}

var (
	tabs          = text.Lazy(`\t+|\s{2,}`)
	mappingColumn = text.Lazy(`(?:NPU|Slot|Chip|Chip Logic) ID|Chip Phy-ID|Chip Name`)
)

// mappingColumns splits the heading of -m, also one whose blanks were lost when
// it was pasted.
func mappingColumns(heading string) []string {
	split, named := tabs.Split(strings.TrimSpace(heading), -1), mappingColumn.FindAllString(heading, -1)
	if len(split) < len(named) {
		return named
	}
	return split
}

// helperChip reports whether a chip of that name is no NPU.
func helperChip(name string) bool {
	return strings.EqualFold(name, "mcu") || name == "3559"
}

func parseMapping(lines []string, _ scope) (gpu.Parsed, bool) {
	rows, ok := readMapping(lines)
	if !ok {
		return gpu.Parsed{}, false
	}
	var p gpu.Parsed
	for i, m := range rows {
		p.GPUs = append(p.GPUs, m.device(i))
	}
	return p, true
}

func (m mapped) device(i int) gpu.Device {
	d := device(i)
	d.Card, d.Chip, d.Minor, d.Model = m.card, m.chip, m.phy, m.name
	return d
}

// parseWatch reads "npu-smi info watch", which repeats its rows until it is
// stopped: the last of a chip counts. The 950 has no column for the chip.
func parseWatch(lines []string, _ scope) (gpu.Parsed, bool) {
	var columns []label
	var p gpu.Parsed
	for _, line := range lines {
		if strings.Contains(line, "NpuID(Idx)") {
			columns = labels(line)
			continue
		}
		w := words(line)
		if columns == nil || len(w) != len(columns) {
			continue
		}
		v := assign(columns, w)
		card, chip := id(v["npuid"].word), new(0)
		if c, ok := v["chipid"]; ok {
			chip = id(c.word)
		}
		if card == nil || chip == nil {
			continue
		}
		at := slices.IndexFunc(p.GPUs, func(d gpu.Device) bool { return equal(d.Card, card) && equal(d.Chip, chip) })
		if at < 0 && len(p.GPUs) == maxDevices {
			break
		}
		if at < 0 {
			at = len(p.GPUs)
			d := device(at)
			d.Card, d.Chip = card, chip
			p.GPUs, p.Stats = append(p.GPUs, d), append(p.Stats, gpu.Stats{})
		}
		p.Stats[at] = watched(p.GPUs[at], v)
	}
	return p, columns != nil
}

func watched(d gpu.Device, v map[string]value) gpu.Stats {
	util, ok := v["npu util"]
	if !ok {
		util = v["ai core"]
	}
	return gpu.Stats{
		Index: d.Index, Power: text.Watts(v["pwr"].word),
		Temperature: text.Celsius(v["temp"].word), Utilization: text.Percent(util.word),
	}
}
