package metax

import (
	"slices"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// parseDmon reads "dmon", which has a line for each die of each card. A card is
// as its first die; of several samples the last counts. Memory is a share of an
// amount that most releases do not print.
func parseDmon(_ []byte, lines []string) (gpu.Parsed, bool) {
	rows, ok := text.Monitor(lines, func(names []string) bool {
		return len(names) > 2 && names[0] == "dev" && slices.Contains(names, "gpu")
	})
	var found cards
	for _, row := range rows {
		n := text.Natural(row["dev"])
		if die := row["die"]; n == nil || die != "" && die != "0" {
			continue
		}
		one := found.at(*n)
		one.device.BusID = text.BusID(row["bdfid"])
		one.device.MemoryTotal = text.Positive(text.Bytes(row["total"], "GB"))
		one.stats = gpu.Stats{
			Temperature: text.Celsius(row["hottemp"]),
			Power:       text.Watts(row["power"]),
			Utilization: text.Share(row["gpu"]),
		}
	}
	return found.parsed(), ok
}
