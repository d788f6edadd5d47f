package kunlun

import (
	"flag"
	"testing"

	"github.com/heteroflow/node-agent/gpu/corpus"
)

var update = flag.Bool("update", false, "write the golden files")

// Each form of output, written for this test, against what it means.
func TestEachFormIsUnderstood(t *testing.T) {
	corpus.Golden(t, Parse, *update, map[string]string{
		"table":     "xpu_smi",
		"old-table": "xpu_smi",
		"query":     "xpu-smi -q",
		"machine":   "xpu_smi -m",
		"list":      "xpu-smi -L",
		"topo":      "xpu-smi topo -m",
		"values":    "xpu_smi | awk '{print $1}'",
	})
}
