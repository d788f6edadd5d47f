package kunlun

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Codes of collector errors and failures that this package gives.
const (
	CodeCardQuery  = "card_query_failed" // an error that names a card
	CodeTelemetry  = "telemetry_error"   // the tool has errors in place of all values
	CodeState      = "device_state"      // the driver has the device in its error state
	CodeDriver     = "driver_not_loaded"
	CodeLibrary    = "library_missing"
	CodePermission = "permission_denied"
	CodeTool       = "tool_error" // the tool says that it could not do it
)

var (
	errorWord = text.Lazy(`(?i)\b(error|failed|unable to|lost)\b`)
	busInText = text.Lazy(`\b[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]\b`)
	xpuInText = text.Lazy(`(?:\bXPU ?|/dev/xpu)(\d{1,3})\b`)

	toolErrors = []struct {
		words *text.Pattern
		code  string
	}{
		{text.Lazy(`error while loading shared libraries`), CodeLibrary},
		{text.Lazy(`(?i)permission denied`), CodePermission},
		{text.Lazy(`(?i)driver not loaded|communicate with the \S+ driver`), CodeDriver},
		{errorWord, CodeTool},
	}
)

// cardErrors returns the errors, printed outside the tables, that name a card
// which is not among the devices.
func cardErrors(lines []string, devices []gpu.Device) []gpu.Failure {
	var out []gpu.Failure
	for _, line := range lines {
		f, ok := blamed(line)
		listed := slices.ContainsFunc(devices, func(d gpu.Device) bool {
			return f.BusID != "" && d.BusID == f.BusID || f.Index != nil && d.Index != nil && *f.Index == *d.Index
		})
		if ok && !listed {
			out = append(out, f)
		}
	}
	return out
}

// blamed returns the failure that an error line stands for if it names a card.
func blamed(line string) (gpu.Failure, bool) {
	if !errorWord.MatchString(line) || text.Cells(line) != nil {
		return gpu.Failure{}, false
	}
	if key, _, ok := text.KeyValue(line); ok && !errorWord.MatchString(key) && !listLine.MatchString(line) {
		return gpu.Failure{}, false // a value of -q
	}
	f := gpu.Failure{Code: CodeCardQuery, Message: strings.TrimSpace(line)}
	if bus := busInText.FindString(line); bus != "" {
		f.BusID = text.BusID(bus)
	} else if m := xpuInText.FindStringSubmatch(line); m != nil {
		f.Index = number(m[1])
	}
	return f, f.BusID != "" || f.Index != nil
}

// parseError reads an output that holds nothing but errors. One that names a card
// is that card's, not the tool's.
func parseError(lines []string) (gpu.Parsed, bool) {
	if len(cardErrors(lines, nil)) > 0 {
		return gpu.Parsed{}, true
	}
	for _, e := range toolErrors {
		for _, line := range lines {
			if e.words.MatchString(line) {
				return gpu.Parsed{CollectorError: &gpu.CollectorError{Code: e.code, Message: strings.TrimSpace(line)}}, true
			}
		}
	}
	return gpu.Parsed{}, false
}
