package hygon

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// field is a word of the table; "[Not Supported]" is one.
var field = text.Lazy(`\[[^\]]*\]|\S+`)

// parseTable reads the table of "hy-smi" and "hy-smi --mig":
//
//	HCU     Temp     AvgPwr     Perf     PwrCap     VRAM%      HCU%      Mode
//	0       51.0C    145.0W     manual   300.0W     0%         0.0%      Normal
//
// Which columns there are varies; the header says. VRAM% is no amount of memory.
func parseTable(output []byte, lines []string) (gpu.Parsed, bool) {
	found := cards{}
	var header []string
	end := len(lines) - 1
	if bytes.HasSuffix(output, []byte("\n")) {
		end = -1 // nothing is cut
	}
	for i, line := range lines {
		fields := field.FindAllString(line, -1)
		if isHeader(fields) {
			header = fields
			continue
		}
		if header == nil || len(fields) < 2 {
			continue
		}
		number := text.Int(fields[0])
		if number == nil || *number < 0 || found[*number] != nil {
			continue
		}
		if i == end && len(fields) < len(header) {
			fields = fields[:len(fields)-1] // cut there, maybe within a number
		}
		c := found.at(*number)
		c.row(assign(header, fields))
		if header[len(header)-1] == busColumn { // some of the other columns have blanks
			c.device.BusID = text.BusID(fields[len(fields)-1])
		}
	}
	if header == nil {
		return gpu.Parsed{}, false
	}
	return found.parsed(), true
}

// isHeader finds the header by its words: the rules around it may be missing.
// AMD's own begins with GPU and has GPU%. --showhw has the bus id in the last
// column.
func isHeader(fields []string) bool {
	if len(fields) < 3 {
		return false
	}
	ours := fields[0] == "HCU" || fields[0] == "DCU" ||
		fields[0] == "GPU" && slices.ContainsFunc(fields, isUse)
	return ours && (slices.Contains(fields, "Temp") || fields[len(fields)-1] == busColumn)
}

const busColumn = "BUS"

func isUse(column string) bool { return column == "HCU%" || column == "DCU%" }

func (c *card) row(v map[string]string) {
	c.stats.Temperature = text.Celsius(v["Temp"])
	c.stats.Power = text.Watts(v["AvgPwr"])
	c.stats.PowerLimit = text.Watts(v["PwrCap"])
	c.stats.Utilization = text.Percent(cmp.Or(v["HCU%"], v["DCU%"]))
	switch v["Mode"] {
	case "MIG":
		c.device.MIGMode = gpu.MIGEnabled
	case "Normal":
		c.device.MIGMode = gpu.MIGDisabled
	}
}

// assign gives each column its word. Where a cell is blank, so that words and
// columns do not come out even, the words of one unit are still assigned if
// there are as many of them as columns of that unit; the others stay absent.
func assign(header, words []string) map[string]string {
	values := map[string]string{}
	if len(header) == len(words) {
		for i, column := range header {
			values[column] = words[i]
		}
		return values
	}
	for _, unit := range []string{"C", "W", "%"} {
		var columns, found []string
		for _, column := range header[1:] {
			if unitOf(column) == unit {
				columns = append(columns, column)
			}
		}
		for _, word := range words[1:] {
			if _, u, ok := text.Number(word); ok && strings.EqualFold(u, unit) {
				found = append(found, word)
			}
		}
		if len(columns) != len(found) {
			continue
		}
		for i, column := range columns {
			values[column] = found[i]
		}
	}
	return values
}

// unitOf returns the unit of a column of the table.
func unitOf(column string) string {
	switch {
	case column == "Temp":
		return "C"
	case strings.Contains(column, "Pwr"):
		return "W"
	case column == "Fan", strings.HasSuffix(column, "%"):
		return "%"
	}
	return ""
}
