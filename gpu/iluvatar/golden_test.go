package iluvatar

import (
	"flag"
	"testing"

	"github.com/heteroflow/node-agent/gpu/corpus"
)

var update = flag.Bool("update", false, "write the golden files")

// Each form of output, written for this test, against what it means.
func TestEachFormIsUnderstood(t *testing.T) {
	corpus.Golden(t, Parse, *update, map[string]string{
		"table":        "ixsmi",
		"xml":          "ixsmi -q -x",
		"query":        "ixsmi -q",
		"list":         "ixsmi -L",
		"csv":          "ixsmi --query-gpu=index --format=csv",
		"csv-noheader": "ixsmi --query-gpu=index,memory.total,memory.used,power.draw --format=csv,noheader,nounits",
		"dmon":         "timeout 2 ixsmi dmon",
		"pmon":         "timeout 2 ixsmi pmon",
		"topo":         "ixsmi topo -m",
	})
}
