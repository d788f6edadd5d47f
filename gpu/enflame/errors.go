package enflame

import (
	"strings"

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

var (
	toolErrors = []struct {
		words *text.Pattern
		code  string
	}{
		{text.Lazy(`(?i)\bno (?:enflame |gcu |available )*(?:devices?|gcus?)\b`), CodeNoDevice},
		{text.Lazy(`(?i)\bdriver\b.*\bnot\b|\bno driver\b`), CodeDriver},
		{text.Lazy(`(?i)error while loading shared libraries`), CodeLibrary},
		{text.Lazy(`(?i)^\W*(?:error|failed|unable to|can(?:no|')t)\b|\befml\b.*\b(?:error|fail\w*)`), CodeTool},
	}
	cardError = text.Lazy(`(?i)\b(?:dev(?:ice)?(?: id)?|gcu)\s*[:#\[]?\s*(\d{1,4})\b|\b((?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b`)
)

// cardErrors returns the errors that name a card: they are that card's, also
// beside the rows of others.
func cardErrors(lines []string) []gpu.Failure {
	var failures []gpu.Failure
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if m := cardError.FindStringSubmatch(line); m != nil && codeOf(line) == CodeTool {
			failures = append(failures, gpu.Failure{
				Index: text.Natural(m[1]), BusID: text.BusID(m[2]), Code: CodeCardFailed, Message: line,
			})
		}
	}
	return failures
}

// parseError reads an output that holds nothing but errors.
func parseError(lines []string) (gpu.Parsed, bool) {
	var p gpu.Parsed
	for _, line := range lines {
		line = strings.TrimSpace(line)
		code := codeOf(line)
		if code == "" || code == CodeTool && cardError.MatchString(line) || p.CollectorError != nil {
			continue
		}
		p.CollectorError = &gpu.CollectorError{Code: code, Message: line}
	}
	return p, p.CollectorError != nil || len(cardErrors(lines)) > 0
}

func codeOf(line string) string {
	for _, e := range toolErrors {
		if e.words.MatchString(line) {
			return e.code
		}
	}
	return ""
}
