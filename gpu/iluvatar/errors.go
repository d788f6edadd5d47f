package iluvatar

import (
	"strings"

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

var (
	toolErrors = []struct {
		words *text.Pattern
		code  string
	}{
		{text.Lazy(`(?i)is not a valid field to query|invalid combination of input arguments|invalid argument`), CodeArgument},
		{text.Lazy(`(?i)\bno devices? (?:were |was )?found`), CodeNoDevice},
		{text.Lazy(`(?i)\bdriver\b.*\bnot\b|couldn't communicate with`), CodeDriver},
		{text.Lazy(`(?i)error while loading shared libraries`), CodeLibrary},
		{text.Lazy(`(?i)^\s*(?:error|failed to|unable to|can(?:no|')t)\b`), CodeTool},
	}
	cardAddress = text.Lazy(`(?i)\b(?:GPU\s*)?((?:[0-9a-f]{4,8}:)[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b|\bGPU\s+(\d{1,4})\b`)
)

// cardErrors returns the errors that name a card: they are that card's, also
// beside the rows of others.
func cardErrors(lines []string) []gpu.Failure {
	var failures []gpu.Failure
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if m := cardAddress.FindStringSubmatch(line); m != nil && codeOf(line) == CodeTool {
			failures = append(failures, gpu.Failure{
				Index: text.Natural(m[2]), BusID: text.BusID(m[1]), Code: CodeCardFailed, Message: line,
			})
		}
	}
	return failures
}

// parseError reads an output that holds nothing but errors.
func parseError(in input) (gpu.Parsed, bool) {
	var p gpu.Parsed
	for _, line := range in.lines {
		line = strings.TrimSpace(line)
		code := codeOf(line)
		if code == "" || code == CodeTool && cardAddress.MatchString(line) || p.CollectorError != nil {
			continue
		}
		p.CollectorError = &gpu.CollectorError{Code: code, Message: line}
	}
	return p, p.CollectorError != nil || len(cardErrors(in.lines)) > 0
}

func codeOf(line string) string {
	for _, e := range toolErrors {
		if e.words.MatchString(line) {
			return e.code
		}
	}
	return ""
}
