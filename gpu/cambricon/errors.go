package cambricon

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Codes of collector errors and failures that this package gives.
const (
	CodeNoSuchCard  = "no_such_card"
	CodeLibrary     = "library_missing" // cnmon does not find libcndev or libcndrv
	CodePermission  = "permission_denied"
	CodeTool        = "tool_error"   // cnmon says "error" or "failed"
	CodeUnhealthy   = "unhealthy"    // "Health State / Device" is not Good
	CodeDriverState = "driver_state" // "Health State / Driver" is not Running
)

var toolErrors = []struct {
	words *text.Pattern
	code  string
}{
	{text.Lazy(`(?i)\bnot exist`), CodeNoSuchCard}, // the tool's words: "not existed"
	{text.Lazy(`error while loading shared libraries`), CodeLibrary},
	{text.Lazy(`(?i)permission denied|no permission`), CodePermission},
	{text.Lazy(`(?i)\b(error|failed)\b`), CodeTool},
}

// parseError reads an output that holds nothing but errors. One about the card
// that was asked for is that card's failure.
func parseError(lines []string, asked *int) (gpu.Parsed, bool) {
	for _, e := range toolErrors {
		for _, line := range lines {
			if !e.words.MatchString(line) {
				continue
			}
			message := strings.TrimSpace(line)
			if e.code == CodeNoSuchCard && asked != nil {
				return gpu.Parsed{Failures: []gpu.Failure{{Index: asked, Code: e.code, Message: message}}}, true
			}
			return gpu.Parsed{CollectorError: &gpu.CollectorError{Code: e.code, Message: message}}, true
		}
	}
	return gpu.Parsed{}, false
}
