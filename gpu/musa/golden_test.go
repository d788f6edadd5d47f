package musa

import (
	"flag"
	"testing"

	"github.com/heteroflow/node-agent/gpu/corpus"
)

var update = flag.Bool("update", false, "write the golden files")

// Each form of output, written for this test, against what it means.
func TestEachFormIsUnderstood(t *testing.T) {
	corpus.Golden(t, Parse, *update, map[string]string{
		"table":      "mthreads-gmi",
		"query":      "mthreads-gmi -q",
		"query.json": "mthreads-gmi -q --json",
		"list":       "mthreads-gmi -L",
		"topo":       "mthreads-gmi topo -m",
	})
}
