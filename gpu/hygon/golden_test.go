package hygon

import (
	"flag"
	"testing"

	"github.com/heteroflow/node-agent/gpu/corpus"
)

var update = flag.Bool("update", false, "write the golden files")

// Each form of output, written for this test, against what it means.
func TestEachFormIsUnderstood(t *testing.T) {
	corpus.Golden(t, Parse, *update, map[string]string{
		"table":             "hy-smi",
		"table-old":         "rocm-smi",
		"values.json":       "hy-smi --showid --json",
		"values-cut.json":   "hy-smi --showuse --json",
		"values-loose.json": "hy-smi --showpower --json",
		"lines":             "hy-smi --showproductname",
		"healthcheck":       "hy-smi --healthcheck",
		"csv":               "hy-smi --showproductname --csv",
		"pids":              "hy-smi --showpids",
		"topo":              "hy-smi --showtopo",
		"virtual":           "hy-smi virtual -show-device-info",
	})
}
