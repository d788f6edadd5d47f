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
// also a physical one, 950 a slot and a physical but no logic id. withChips says
// whether this generation's commands take "-c CHIP" (all but 950). A row without
// any device id is another chip of the board: the Mcu, a 3559.
func readMapping(lines []string) (rows []mapped, withChips, ok bool) {
	var columns []string
	for _, line := range lines {
		if strings.Contains(line, "NPU ID") && strings.Contains(line, "Chip ID") {
			columns = blanks.Split(strings.TrimSpace(line), -1)
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
		if m.card != nil && m.chip != nil && (m.logic != nil || m.phy != nil) && !helperChip(m.name) {
			rows = append(rows, m)
		}
	}
	return rows, slices.Contains(columns, "Chip Logic ID"), columns != nil
}

// helperChip reports whether a chip of that name is no NPU.
func helperChip(name string) bool {
	return strings.EqualFold(name, "mcu") || name == "3559"
}

func parseMapping(lines []string, _ scope) (gpu.Parsed, bool) {
	rows, _, ok := readMapping(lines)
	if !ok {
		return gpu.Parsed{}, false
	}
	var p gpu.Parsed
	for i, m := range rows {
		d := device(i)
		d.Card, d.Chip, d.Minor, d.Model = m.card, m.chip, m.phy, m.name
		p.GPUs = append(p.GPUs, d)
	}
	return p, true
}

// parseWatch reads "npu-smi info watch", which repeats its rows until it is
// stopped: the last of a chip counts. The 950 has no column for the chip.
func parseWatch(lines []string, _ scope) (gpu.Parsed, bool) {
	var columns []label
	var p gpu.Parsed
	for i, line := range lines {
		if strings.Contains(line, "NpuID(Idx)") {
			columns = labels(line)
			continue
		}
		w := words(line)
		if columns == nil || len(w) != len(columns) || lastLine(lines, i) && len(w) == 0 {
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
