package enflame

import (
	"flag"
	"testing"

	"github.com/heteroflow/node-agent/gpu/corpus"
)

var update = flag.Bool("update", false, "write the golden files")

// Each form of output, written for this test, against what it means.
func TestEachFormIsUnderstood(t *testing.T) {
	corpus.Golden(t, Parse, *update, map[string]string{
		"table":       "efsmi",
		"table-12":    "efsmi",
		"table-stars": "efsmi",
		"query":       "efsmi -q",
		"dmon":        "efsmi --dmon -c 2",
		"list":        "efsmi -L",
	})
}
