package musa

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Codes of collector errors and failures that this package gives.
const (
	CodeNoDevice   = "no_device"         // the driver sees no card: IOMMU or BAR settings
	CodeLibrary    = "mtml_init"         // libmtml cannot open the cards: groups, or just after modprobe
	CodeDriver     = "driver_not_loaded" // the kernel module mtgpu
	CodeRuntime    = "runtime_not_bound" // a container without the vendor's runtime has no tool
	CodeNotFound   = "tool_not_found"    // the shell's words for it
	CodeTool       = "tool_error"        // the tool says "error"
	CodeCardFailed = "card_error"        // the tool says so of one card
)

var (
	toolErrors = []struct {
		words *text.Pattern
		code  string
	}{
		{text.Lazy(`(?i)no mt gpu device`), CodeNoDevice},
		{text.Lazy(`(?i)failed to initiali[sz]e mtml`), CodeLibrary},
		{text.Lazy(`(?i)failed to load driver`), CodeDriver},
		{text.Lazy(`(?i)executable file not found`), CodeRuntime},
		{text.Lazy(`(?i)mthreads-gmi: (?:command )?not found`), CodeNotFound},
		{text.Lazy(`(?i)^\s*(?:error|failed to|unable to)\b`), CodeTool},
	}
	cardError = text.Lazy(`(?i)\bGPU\s*(\d{1,4})\b|\b((?:[0-9a-f]{4,8}:)[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\b`)
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
func parseError(_ []byte, lines []string) (gpu.Parsed, bool) {
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
