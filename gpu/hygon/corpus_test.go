package hygon

import (
	"testing"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/corpus"
)

func TestCorpus(t *testing.T) {
	corpus.Check(t, gpu.Hygon, Parse, corpus.KnownGaps{
		"hcu-meminfo-vram-mib-gap": "the recording counts the devices; the index is the number that the tool prints, " +
			"and takes, for the card (0, 1, 7)",
	})
}
