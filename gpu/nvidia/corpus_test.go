package nvidia

import (
	"testing"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/corpus"
)

func TestCorpus(t *testing.T) {
	corpus.Check(t, gpu.NVIDIA, Parse, corpus.KnownGaps{
		"apps-container-not-found": "the rows of processes are compared whole, and the expectation leaves out " +
			"the gpu_uuid that the text prints",
	})
}
