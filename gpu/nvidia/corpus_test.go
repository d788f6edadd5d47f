package nvidia

import (
	"testing"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/corpus"
)

func TestCorpus(t *testing.T) {
	corpus.Check(t, gpu.NVIDIA, Parse, nil)
}
