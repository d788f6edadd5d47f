package hygon

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Codes of collector errors and failures that this package gives.
const (
	CodeRuntime    = "runtime_not_initialized" // the driver or its devices are not accessible
	CodeDriver     = "driver_not_loaded"
	CodeNoDRM      = "no_drm_device" // the card has no node below /dev/dri, here
	CodePermission = "permission_denied"
	CodeLibrary    = "library_missing"
	CodeTool       = "tool_error" // the tool says "error"
	codeUnhealthy  = "unhealthy"
)

var (
	// "Error: Dcu[0]: No DRM devices available, exiting." and "HCU[1] : ERROR: …"
	cardError  = text.Lazy(`(?i)^\s*(?:error|warning)\s*:\s*(?:\d+\s+)?(?:hcu|dcu|gpu)\[(\d{1,4})\]\s*:\s*(.+)$`)
	errorFirst = text.Lazy(`(?i)^(?:error|unable to|failed to)\b`)
	toolErrors = []struct {
		words *text.Pattern
		code  string
	}{
		{text.Lazy(`(?i)runtime does not initialize`), CodeRuntime},
		{text.Lazy(`(?i)driver not initialized|not found in modules`), CodeDriver},
		{text.Lazy(`(?i)no drm devices`), CodeNoDRM},
		{text.Lazy(`(?i)permission denied`), CodePermission},
		{text.Lazy(`error while loading shared libraries|cannot open shared object`), CodeLibrary},
		{text.Lazy(`(?i)^\s*error\b|^\w*(?:Error|Exception)\b`), CodeTool}, // the tool is a Python program
	}
)

func codeOf(message string) string {
	for _, e := range toolErrors {
		if e.words.MatchString(message) {
			return e.code
		}
	}
	return CodeTool
}

func isError(s string) bool { return errorFirst.MatchString(s) }

// cardErrors returns the errors that name a card which is not among the devices.
// One about a single value of a card that is listed (a fan that cannot be read)
// does not make the card a failed one.
func cardErrors(lines []string, devices []gpu.Device) []gpu.Failure {
	var out []gpu.Failure
	named := map[int]bool{}
	for _, d := range devices {
		named[*d.Index] = true
	}
	for _, line := range lines {
		m := cardError.FindStringSubmatch(line)
		if m == nil {
			if m = cardLine.FindStringSubmatch(line); m == nil || !isError(m[2]) {
				continue
			}
		}
		if n := number(m[1]); !named[n] {
			named[n] = true
			out = append(out, gpu.Failure{Index: &n, Code: codeOf(m[2]), Message: strings.TrimSpace(m[2])})
		}
	}
	return out
}

var noCard = text.Lazy(`(?i)\bno (?:amd |hygon )?(?:gpu|dcu|hcu|device)s? (?:specified|found|detected|available)`)

// parseNone recognises what the tool says where there is no card: "WARNING: No AMD
// GPUs specified", in the words of its origin.
func parseNone(_ []byte, lines []string) (gpu.Parsed, bool) {
	return gpu.Parsed{}, slices.ContainsFunc(lines, noCard.MatchString)
}

// parseError reads an output that holds nothing but errors.
func parseError(_ []byte, lines []string) (gpu.Parsed, bool) {
	for _, e := range toolErrors {
		for _, line := range lines {
			if e.words.MatchString(line) {
				return gpu.Parsed{CollectorError: &gpu.CollectorError{
					Code: e.code, Message: strings.TrimSpace(line) + lspciHint(lines),
				}}, true
			}
		}
	}
	return gpu.Parsed{}, len(cardErrors(lines, nil)) > 0
}

// lspciHint explains an error that hy-smi itself does not: it runs lspci to find
// its cards.
func lspciHint(lines []string) string {
	for _, line := range lines {
		if strings.Contains(line, "lspci: not found") {
			return " (lspci, which hy-smi runs, is not installed: pciutils)"
		}
	}
	return ""
}

var driverLine = text.Lazy(`(?i)^\s*driver version\s*:\s*(\S+)`)

// driverVersion returns what --showdriverversion prints.
func driverVersion(lines []string) string {
	for _, line := range lines {
		if m := driverLine.FindStringSubmatch(line); m != nil {
			return text.String(m[1])
		}
	}
	return ""
}

// parseDriver recognises --showdriverversion, which names no card.
func parseDriver(_ []byte, lines []string) (gpu.Parsed, bool) {
	return gpu.Parsed{}, driverVersion(lines) != ""
}
