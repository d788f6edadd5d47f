package ascend

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
)

// listings are words of outputs that name no card and say nothing that
// gpu.Parsed has a place for: versions and everything about virtual NPUs. That
// those can be queried is not taken as a capability: the agent makes none.
var listings = []string{
	"npu-smi version", "There is no NPU card", "NPU resource static info", "NPU instance template info",
	"Total number of vnpu", "VNPU config recover mode", "vnpu-mode ",
}

// parseListing recognises outputs without cards, that of an empty node too.
func parseListing(lines []string, _ scope) (gpu.Parsed, bool) {
	for _, line := range lines {
		for _, words := range listings {
			if strings.HasPrefix(strings.TrimLeft(line, "| \t"), words) {
				return gpu.Parsed{}, true
			}
		}
	}
	return gpu.Parsed{}, false
}
