package preflight

import (
	"strings"

	"github.com/distribution/reference"

	"github.com/heteroflow/node-agent/protocol"
	"github.com/heteroflow/node-agent/runtime"
)

// engine is what an inference engine wants of /dev/shm, through which its processes, one a
// card and some beside, talk to each other.
type engine struct {
	// names are its words in the names of images and in a task's engine field. Vendors'
	// forks carry them: vllm-ascend, vllm_musa.
	names []string
	// hostIPC: its own instructions run it with the host's /dev/shm.
	hostIPC bool
	// bytes is the size of a /dev/shm of its own.
	bytes int64
}

// backendBytes is what a backend gets that asks for nothing else: gpustack's default for
// every one (gpustack/worker/backends/base.py, GPUSTACK_MODEL_RUNTIME_SHM_SIZE_GIB).
const backendBytes = 10 * gib

// engines are in the order in which names are looked for: those of servers that carry
// another's engine before the engine's.
var engines = []engine{
	{names: []string{"tritonserver", "triton"}, bytes: backendBytes},                // its Python backend grows a pool in it
	{names: []string{"ktransformers"}, bytes: 64 * gib},                             // doc/en/balance-serve.md
	{names: []string{"xllm"}, bytes: 128 * gib},                                     // xLLM's documents
	{names: []string{"vllm"}, hostIPC: true, bytes: backendBytes},                   // docs.vllm.ai, deploying with Docker
	{names: []string{"sglang"}, hostIPC: true, bytes: backendBytes},                 // docker/compose.yaml
	{names: []string{"lmdeploy"}, hostIPC: true, bytes: 32 * gib},                   // docs/en/get_started/installation.md
	{names: []string{"tensorrt-llm", "trtllm"}, hostIPC: true, bytes: backendBytes}, // its quick start
	{names: []string{"text-generation-inference", "tgi"}, bytes: gib},               // README, "A note on Shared Memory"
}

// engineOf is the engine a task runs: the one it names, else the one its image is named
// after, by its repository or else by its tag. nil: none that is known.
func engineOf(t protocol.Task) *engine {
	if t.Engine != "" {
		return engineNamed(t.Engine)
	}
	named, err := runtime.ParseReference(t.Image)
	if err != nil {
		return nil
	}
	if e := engineNamed(reference.Path(named)); e != nil {
		return e
	}
	if tagged, ok := named.(reference.Tagged); ok {
		return engineNamed(tagged.Tag())
	}
	return nil
}

func engineNamed(text string) *engine {
	text = strings.ToLower(text)
	for i, e := range engines {
		for _, name := range e.names {
			if hasWord(text, name) {
				return &engines[i]
			}
		}
	}
	return nil
}

// hasWord tells whether word stands in text with no letter or digit next to it.
func hasWord(text, word string) bool {
	for rest := text; ; {
		before, after, found := strings.Cut(rest, word)
		switch {
		case !found:
			return false
		case !endsAlphanumeric(before) && !startsAlphanumeric(after):
			return true
		}
		rest = after
	}
}

func startsAlphanumeric(s string) bool { return s != "" && alphanumeric(s[0]) }

func endsAlphanumeric(s string) bool { return s != "" && alphanumeric(s[len(s)-1]) }

func alphanumeric(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }
