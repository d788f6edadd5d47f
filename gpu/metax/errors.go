package metax

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Codes of collector errors and failures that this package gives.
const (
	CodeArgument     = "bad_argument"      // this version of the tool has no such option
	CodeNoDevice     = "no_device"         // the tool sees no card
	CodeDriver       = "driver_not_loaded" // the kernel module metax
	CodeLibrary      = "library_missing"   // libmxsml.so and the like
	CodeNoAccess     = "no_access"         // every card listed belongs to others
	CodeTool         = "tool_error"        // the tool says "error"
	CodeNotAvailable = "not_available"     // the tool says so of one card
)

var toolErrors = []struct {
	words *text.Pattern
	code  string
}{
	{text.Lazy(`^\s*PARSE ERROR\b`), CodeArgument},
	{text.Lazy(`(?i)\bno (?:available |metax |gpu )?devices?\b`), CodeNoDevice},
	{text.Lazy(`(?i)\bdriver\b.*\bnot\b|\bno driver\b|module metax`), CodeDriver},
	{text.Lazy(`(?i)error while loading shared libraries`), CodeLibrary},
	{text.Lazy(`(?i)^\s*(?:error|failed to|unable to|can(?:no|')t)\b|\b(?:mx|ht)sml\w* failed\b|\bsysfs error\b`), CodeTool},
}

// parseError reads an output that holds nothing but an error.
func parseError(_ []byte, lines []string) (gpu.Parsed, bool) {
	for _, line := range lines {
		for _, e := range toolErrors {
			if e.words.MatchString(line) {
				return gpu.Parsed{CollectorError: &gpu.CollectorError{Code: e.code, Message: strings.TrimSpace(line)}}, true
			}
		}
	}
	return gpu.Parsed{}, false
}
