package metax

import (
	"flag"
	"testing"

	"github.com/heteroflow/node-agent/gpu/corpus"
)

var update = flag.Bool("update", false, "write the golden files")

// Each form of output, written for this test, against what it means.
func TestEachFormIsUnderstood(t *testing.T) {
	corpus.Golden(t, Parse, *update, map[string]string{
		"table":    "mx-smi",
		"table-22": "mx-smi",
		"table-21": "mx-smi",
		"list":     "mx-smi -L",
		"summary":  "mx-smi --summary",
		"dmon":     "mx-smi dmon -c 2",
		"dmon-csv": "mx-smi dmon -c 1 -o x.csv",
		"json":     "mx-smi -j",
		"topo":     "mx-smi topo -m",
	})
}
