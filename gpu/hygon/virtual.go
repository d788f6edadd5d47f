package hygon

import (
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var virtualDevice = text.Lazy(`^\s*Device (\d{1,4}):\s*$`)

// parseVirtual reads "hy-smi virtual -show-device-info" (hy-virtual is its old
// name): what a virtual DCU has of its card.
func parseVirtual(_ []byte, lines []string) (gpu.Parsed, bool) {
	found := cards{}
	var current *card
	for _, line := range lines {
		if m := virtualDevice.FindStringSubmatch(line); m != nil {
			current = found.at(number(m[1]))
			continue
		}
		if key, value, ok := text.KeyValue(line); ok && current != nil && key == "Global memory" {
			current.device.MemoryTotal = positive(text.Bytes(value, "B"))
		}
	}
	return found.parsed(), len(found) > 0
}
