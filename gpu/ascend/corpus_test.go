package ascend

import (
	"testing"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/corpus"
)

func TestCorpus(t *testing.T) {
	corpus.Check(t, gpu.Ascend, Parse, corpus.KnownGaps{
		"910a-lspci-card-dropped-7of8": "that an eighth card was there before is not in the text; " +
			"the registry's remembered inventory reports it",
		"310p-vnpu-vir04-in-container-excerpt": "the recording itself calls an absent utilisation the better answer: " +
			"npu-smi prints a constant 0 for a virtual NPU",
	})
}
