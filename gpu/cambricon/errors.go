package cambricon

import (
	"cmp"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Codes of collector errors and failures that this package gives.
const (
	CodeNoSuchCard  = "no_such_card"
	CodeCardQuery   = "card_query_failed" // an error that names a card
	CodeDriver      = "driver_not_loaded"
	CodeLibrary     = "library_missing" // cnmon does not find libcndev or libcndrv
	CodePermission  = "permission_denied"
	CodeTool        = "tool_error"   // cnmon says "error" or "failed"
	CodeUnhealthy   = "unhealthy"    // "Health State / Device" is not Good
	CodeDriverState = "driver_state" // "Health State / Driver" is not Running
)

var (
	errorWord  = text.Lazy(`(?i)\b(error|failed|lost|unable to|not exist\w*)\b`)
	noSuchCard = text.Lazy(`(?i)\bnot exist`) // the tool's words: "not existed"
	cardInText = text.Lazy(`(?i)\bcard\s*#?(\d{1,3})\b|cambricon_dev(\d{1,3})\b`)
	noCard     = text.Lazy(`(?i)\bno (?:mlu )?(?:device|card)s?\b|\bno mlus? (?:found|detected)|` +
		`can(?:'t|not) find any (?:mlu )?(?:device|card)`)

	toolErrors = []struct {
		words *text.Pattern
		code  string
	}{
		{noSuchCard, CodeNoSuchCard},
		{text.Lazy(`error while loading shared libraries`), CodeLibrary},
		{text.Lazy(`(?i)permission denied|no permission`), CodePermission},
		{text.Lazy(`(?i)\bdriver\b.*\bnot\b|\bno (?:\w+ )?driver`), CodeDriver},
		{errorWord, CodeTool},
	}
)

// cardErrors returns the errors, printed outside of tables and values, that name a
// card of which the output says nothing else.
func cardErrors(lines []string, devices []gpu.Device) []gpu.Failure {
	var out []gpu.Failure
	named := map[int]bool{}
	for _, d := range devices {
		if d.Index != nil {
			named[*d.Index] = d.Model != "" || d.UUID != "" || d.BusID != "" || d.MemoryTotal != nil
		}
	}
	for _, line := range lines {
		n := blamed(line)
		if n == nil || named[*n] {
			continue
		}
		named[*n] = true
		code := CodeCardQuery
		if noSuchCard.MatchString(line) {
			code = CodeNoSuchCard
		}
		out = append(out, gpu.Failure{Index: n, Code: code, Message: strings.TrimSpace(line)})
	}
	return out
}

// blamed returns the card that an error line names.
func blamed(line string) *int {
	m := cardInText.FindStringSubmatch(line)
	if m == nil || !errorWord.MatchString(line) || text.Cells(line) != nil {
		return nil
	}
	if key, _, ok := text.KeyValue(line); ok && !errorWord.MatchString(key) && !cardHeading.MatchString(line) {
		return nil // a value of "info"
	}
	return number(cmp.Or(m[1], m[2]))
}

// parseNone recognises what the tool says where there is no card, unless it is for
// want of a driver.
func parseNone(lines []string, _ *int) (gpu.Parsed, bool) {
	driver := slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(strings.ToLower(l), "driver") })
	return gpu.Parsed{}, !driver && slices.ContainsFunc(lines, noCard.MatchString)
}

// parseError reads an output that holds nothing but errors. One that names a card,
// or is about the card that was asked for, is that card's failure.
func parseError(lines []string, asked *int) (gpu.Parsed, bool) {
	if len(cardErrors(lines, nil)) > 0 {
		return gpu.Parsed{}, true
	}
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
