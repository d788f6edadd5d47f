package ascend

import (
	"flag"
	"testing"

	"github.com/heteroflow/node-agent/gpu/corpus"
)

var update = flag.Bool("update", false, "write the golden files")

// Each form of output, written for this test, against what it means.
func TestEachFormIsUnderstood(t *testing.T) {
	corpus.Golden(t, Parse, *update, map[string]string{
		"info-910b":      "npu-smi info",
		"info-910c":      "npu-smi info",
		"info-950":       "npu-smi info",
		"info-310p-duo":  "npu-smi info",
		"common-duo":     "npu-smi info -t common -i 3001",
		"usages-duo":     "npu-smi info -t usages -i 3001",
		"health-alarm":   "npu-smi info -t health -i 6 -c 1",
		"board-card5":    "npu-smi info -t board -i 5",
		"fault-event":    "npu-smi info -t current-fault-event -i 2",
		"map-910c":       "npu-smi info -m",
		"topo":           "npu-smi info -t topo",
		"watch":          "npu-smi info watch",
		"list-two-cards": "npu-smi info -l",
	})
}
