package musa

import (
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Codes of collector errors and failures that this package gives.
const (
	CodeNoDevice   = "no_device"         // the driver sees no card: IOMMU or BAR settings
	CodeLibrary    = "mtml_init"         // libmtml cannot open the cards: groups, or just after modprobe
	CodeDriver     = "driver_not_loaded" // the kernel module mtgpu
	CodeMissing    = "library_missing"   // libmtml
	CodeRuntime    = "runtime_not_bound" // a container without the vendor's runtime has no tool
	CodeNotFound   = "tool_not_found"    // the shell's words for it
	CodeTool       = "tool_error"        // the tool says "error"
	CodeCardFailed = "card_error"        // the tool says so of one card
)

var toolErrors = gpu.ToolErrors{
	Words: []gpu.ErrorWords{
		{Words: text.Lazy(`(?i)no mt gpu device`), Code: CodeNoDevice},
		{Words: text.Lazy(`(?i)failed to initiali[sz]e mtml`), Code: CodeLibrary},
		{Words: text.Lazy(`(?i)error while loading shared libraries`), Code: CodeMissing},
		{Words: text.Lazy(`(?i)failed to load driver`), Code: CodeDriver},
		{Words: text.Lazy(`(?i)executable file not found`), Code: CodeRuntime},
		{Words: text.Lazy(`(?i)mthreads-gmi: (?:command )?not found`), Code: CodeNotFound},
		{Words: text.Lazy(`(?i)^\s*(?:error|failed to|unable to)\b`), Code: CodeTool},
	},
	Card: text.Lazy(`(?i)\bGPU\s*(?P<index>\d{1,4})\b|\b(?P<address>(?:[0-9a-f]{4,8}:)[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b`),
	Any:  CodeTool, CardCode: CodeCardFailed,
}

// parseError reads an output that holds nothing but errors.
func parseError(_ []byte, lines []string) (gpu.Parsed, bool) { return toolErrors.Parse(lines) }
