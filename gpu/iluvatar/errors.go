package iluvatar

import (
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Codes of collector errors and failures that this package gives.
const (
	CodeArgument   = "bad_argument"      // this version of the tool has no such option or field
	CodeNoDevice   = "no_device"         // the tool sees no card
	CodeDriver     = "driver_not_loaded" // the kernel module iluvatar
	CodeLibrary    = "library_missing"   // libixml.so, libcuda.so.1 of CoreX, libixthunk.so
	CodeTool       = "tool_error"        // the tool says "error"
	CodeCardFailed = "card_error"        // the tool says so of one card
	CodeHung       = "hung"              // a card reads sentinel values
)

var toolErrors = gpu.ToolErrors{
	Words: []gpu.ErrorWords{
		{Words: text.Lazy(`(?i)is not a valid field to query|invalid combination of input arguments|invalid argument`), Code: CodeArgument},
		{Words: text.Lazy(`(?i)\bno devices? (?:were |was )?found`), Code: CodeNoDevice},
		{Words: text.Lazy(`(?i)\bdriver\b.*\bnot\b|couldn't communicate with`), Code: CodeDriver},
		{Words: text.Lazy(`(?i)error while loading shared libraries`), Code: CodeLibrary},
		{Words: text.Lazy(`(?i)^\s*(?:error|failed to|unable to|can(?:no|')t)\b`), Code: CodeTool},
	},
	Card: text.Lazy(`(?i)\b(?:GPU\s*)?(?P<address>(?:[0-9a-f]{4,8}:)[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b|\bGPU\s+(?P<index>\d{1,4})\b`),
	Any:  CodeTool, CardCode: CodeCardFailed,
}

// parseError reads an output that holds nothing but errors.
func parseError(in input) (gpu.Parsed, bool) { return toolErrors.Parse(in.lines) }
