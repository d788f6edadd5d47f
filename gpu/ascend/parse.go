package ascend

import (
	"errors"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

const toolName = "npu-smi"

// maxDevices bounds what is read of a table: no host has a quarter of it.
const maxDevices = 256

// scope is what the arguments say about whom an output is; several forms of
// npu-smi's output do not repeat it.
type scope struct {
	card, chip *int
	typed      bool // "info -t TYPE"
}

// forms are the forms of output, in the order in which they are tried. Each
// returns false for text that is not of its form.
var forms = []func([]string, scope) (gpu.Parsed, bool){
	parseListing,
	parseTable,
	parseTopology,
	parseMapping,
	parseWatch,
	parseResult,
	parseBlocks,
	parseLspci,
	parseError,
}

// Parse says what an output of npu-smi means, whichever of its forms it is: the
// table of "info", "info -l", "-m", "watch", every "-t TYPE" of one card, the
// answers of "set", and lspci's lines of Ascend cards. The exit status is not
// looked at: npu-smi prints valid rows with a non-zero one.
func Parse(argv []string, _ int, output []byte) (gpu.Parsed, error) {
	lines := text.Lines(output)
	sc := scopeOf(argv)
	for _, form := range forms {
		if p, ok := form(lines, sc); ok {
			return p, nil
		}
	}
	return gpu.Parsed{}, errors.New("not a known form of npu-smi's output")
}

// scopeOf reads "-i CARD", "-c CHIP" and "info -t TYPE".
func scopeOf(argv []string) scope {
	args, _ := text.ToolArgs(argv, toolName)
	var sc scope
	for i := range len(args) - 1 {
		switch args[i] {
		case "-i":
			sc.card = id(args[i+1])
		case "-c":
			sc.chip = id(args[i+1])
		case "-t":
			sc.typed = args[0] == "info"
		}
	}
	return sc
}

// id returns the card, chip or device number that s is, or nil.
func id(s string) *int {
	if n := text.Int(s); n != nil && *n >= 0 {
		return n
	}
	return nil
}

// device returns the i-th device of an output.
func device(i int) gpu.Device {
	return gpu.Device{Index: new(i), Vendor: gpu.Ascend, Type: gpu.Ascend}
}

func equal(a, b *int) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }
