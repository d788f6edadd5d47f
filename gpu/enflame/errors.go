package enflame

import (
	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Codes of collector errors and failures that this package gives.
const (
	CodeNoDevice   = "no_device"         // the tool sees no card
	CodeDriver     = "driver_not_loaded" // the kernel module enflame
	CodeLibrary    = "library_missing"   // libefml.so
	CodeTool       = "tool_error"        // the tool says "error"
	CodeCardFailed = "card_error"        // the tool says so of one card
	CodeUnhealthy  = "unhealthy"         // a card's Health is False
)

var toolErrors = gpu.ToolErrors{
	Words: []gpu.ErrorWords{
		{Words: text.Lazy(`(?i)\bdriver\b.*\bnot\b|\bno (?:\w+ ){0,2}driver\b`), Code: CodeDriver},
		{Words: text.Lazy(`(?i)\bno (?:enflame |gcu |available )*(?:devices?|gcus?)\b`), Code: CodeNoDevice},
		{Words: text.Lazy(`(?i)error while loading shared libraries`), Code: CodeLibrary},
		{Words: text.Lazy(`(?i)^\W*(?:error|failed|unable to|can(?:no|')t)\b|\befml\b.*\b(?:error|fail\w*)`), Code: CodeTool},
	},
	Card: text.Lazy(`(?i)\b(?:dev(?:ice)?(?: id)?|gcu)\s*[:#\[]?\s*(?P<index>\d{1,4})\b|\b(?P<address>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b`),
	Any:  CodeTool, CardCode: CodeCardFailed,
}
