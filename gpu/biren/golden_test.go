package biren

import (
	"flag"
	"testing"

	"github.com/heteroflow/node-agent/gpu/corpus"
)

var update = flag.Bool("update", false, "write the golden files")

// Written from documents: no output of the tool is public.
func TestEachFormIsUnderstood(t *testing.T) {
	corpus.Golden(t, Parse, *update, map[string]string{
		"noheader": "brsmi gpu --query-gpu=index,memory.used,memory.free,svi.mode.current,serial,temperature.gpu --format=csv,noheader,nounits",
		"header":   "brsmi gpu --query-gpu=index --format=csv",
	})
}
