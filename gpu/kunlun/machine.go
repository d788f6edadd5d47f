package kunlun

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Columns of "-m", of which the tool's --help lists 32; a model of two words is
// quoted.
const (
	columnBus = iota
	_         // the board's number
	columnDevice
	columnSerial
	columnTemperature
	columnPower       = 8
	columnUsed        = 17
	columnTotal       = 18
	columnUtilization = 19
	columnFirmware    = 20
	columnModel       = 21
	columnPlace       = 22 // of the chip on its board
)

var (
	machineField = text.Lazy(`"[^"]*"|\S+`)
	modelWord    = text.Lazy(`^(?:"[^"]*"|[A-Z]\S*)$`)
)

// parseMachine reads "-m", a line of blank-separated values a device, without a
// header.
func parseMachine(lines []string) (gpu.Parsed, bool) {
	var cards []*card
	for _, line := range lines {
		f := machineField.FindAllString(line, -1)
		if len(f) <= columnModel || text.BusID(f[columnBus]) == "" || number(f[columnDevice]) == nil ||
			!modelWord.MatchString(f[columnModel]) {
			continue
		}
		c := &card{number: number(f[columnDevice])}
		if len(f) > columnPlace {
			c.place = f[columnPlace]
		}
		d, s := &c.device, &c.stats
		d.BusID, d.Serial = text.BusID(f[columnBus]), text.String(f[columnSerial])
		d.Model = text.String(strings.Trim(f[columnModel], `"`))
		d.FirmwareVersion = text.String(f[columnFirmware])
		d.MemoryTotal = positive(text.MiB(f[columnTotal]))
		s.MemoryUsed = text.MiB(f[columnUsed])
		s.Temperature, s.Utilization = text.Celsius(f[columnTemperature]), text.Percent(f[columnUtilization])
		s.Power = watts(f[columnPower])
		cards = append(cards, c)
	}
	return result(cards), len(cards) > 0
}

// maxWatts is more than any card draws; and less than 2 W none does. So above it
// the value is in milliwatts: those of the K200 are, those of the P800 are watts.
const maxWatts = 2000

func watts(s string) *float64 {
	w := text.Watts(s)
	if w != nil && *w > maxWatts {
		*w /= 1000
	}
	return w
}

// valueLine is what monitoring scripts make of a device's line:
// "37C 74W 0MiB 32768MiB 0%".
var valueLine = text.Lazy(`^\s*(\d+C)\s+(\d+W)\s+(\d+MiB)\s+(\d+MiB)\s+(\d+%)\s*$`)

// parseValues reads such lines; they do not say which device each is of.
func parseValues(lines []string) (gpu.Parsed, bool) {
	var cards []*card
	for _, line := range lines {
		m := valueLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		c := &card{}
		c.device.MemoryTotal = positive(text.Bytes(m[4], ""))
		c.stats = gpu.Stats{
			Temperature: text.Celsius(m[1]), Power: text.Watts(m[2]), MemoryUsed: text.Bytes(m[3], ""),
			Utilization: text.Percent(m[5]),
		}
		cards = append(cards, c)
	}
	return result(cards), len(cards) > 0
}
