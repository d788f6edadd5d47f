package cambricon

import (
	"flag"
	"testing"

	"github.com/heteroflow/node-agent/gpu/corpus"
)

var update = flag.Bool("update", false, "write the golden files")

// Each form of output, written for this test, against what it means.
func TestEachFormIsUnderstood(t *testing.T) {
	corpus.Golden(t, Parse, *update, map[string]string{
		"table":     "cnmon",
		"table-4":   "cnmon",
		"table-1":   "cnmon",
		"info":      "cnmon info",
		"info.json": "cat cnmon_info.json",
		"topo":      "cnmon topo -m",
	})
}
