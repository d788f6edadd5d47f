package ascend

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
)

// parseVNPU recognises the listings about virtual NPUs: modes, templates, and a
// chip's slices. They name no card and nothing that gpu.Parsed has a place for.
// That they can be queried is not taken as a capability: the agent does not
// create virtual NPUs.
func parseVNPU(lines []string, _ scope) (gpu.Parsed, bool) {
	for _, line := range lines {
		for _, words := range []string{
			"NPU resource static info", "NPU instance template info", "Total number of vnpu", "VNPU config recover mode",
		} {
			if strings.Contains(line, words) {
				return gpu.Parsed{}, true
			}
		}
		if strings.HasPrefix(strings.TrimSpace(line), "vnpu-mode ") {
			return gpu.Parsed{}, true
		}
	}
	return gpu.Parsed{}, false
}
