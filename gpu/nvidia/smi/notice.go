package smi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// problem is an error line that names no card.
type problem struct {
	line          int
	code, message string
}

func (p *problem) as() *gpu.CollectorError {
	return &gpu.CollectorError{Code: p.code, Message: p.message}
}

// failure is an error line that names a card.
type failure struct {
	gpu.Failure
	line    int
	warning bool // the card works all the same
	row     bool // the row in the card's place has been seen
}

const (
	codeLost    = "gpu_lost"
	codeReset   = "reset_required"
	codeReboot  = "reboot_required"
	codePower   = "insufficient_power"
	codeUnknown = "nvml_unknown"

	codeInterrupt = "interrupt_issue"
	codeTelemetry = "telemetry_error"

	codeNoDevices = "no_devices"
)

// CodeInvalidField is the collector error of a query with a field that this
// version of nvidia-smi does not know; its message quotes the field.
const CodeInvalidField = "invalid_field"

// CodeInfoROM is the failure of a card that works all the same.
const CodeInfoROM = "inforom_corrupted"

// CodeInvalidArgument is the collector error of options that this version of
// nvidia-smi does not know.
const CodeInvalidArgument = "invalid_argument"

// nvmlCodes are NVML's own error texts (nvmlErrorString), by which nvidia-smi
// ends its messages, and the codes that stand for them.
var nvmlCodes = map[string]string{
	"unknown error":                              codeUnknown,
	"n/a":                                        codeUnknown,
	"driver/library version mismatch":            "lib_rm_version_mismatch",
	"driver not loaded":                          "driver_not_loaded",
	"no supported gpus were found":               "gpu_not_found",
	"insufficient permissions":                   "no_permission",
	"gpu access blocked by the operating system": "operating_system_blocked",
	"gpu is lost":                                codeLost,
	"gpu requires reset":                         codeReset,
	"insufficient external power":                codePower,
	"nvml shared library not found":              "library_not_found",
	"corrupted inforom":                          CodeInfoROM,
	"in use by another client":                   "in_use",
}

// exitCodes are the exit statuses of nvidia-smi(1) that name a cause. They count
// only where the text says nothing.
var exitCodes = map[int]string{
	4: "no_permission", 8: codePower, 9: "driver_not_loaded", 10: codeInterrupt,
	12: "library_not_found", 13: "function_not_found", 15: codeLost, 18: "lib_rm_version_mismatch",
	126: "no_permission", 127: "not_installed", // the shell's, in words of any language
}

// toolErrors are the lines by which the tool fails as a whole. A line without a
// code ends in NVML's text, which gives it.
var toolErrors = []struct {
	pattern *text.Pattern
	code    string
}{
	{text.Lazy(`(?i)^\s*NVIDIA-SMI has failed because it couldn't communicate`), "driver_not_loaded"},
	{text.Lazy(`(?i)^\s*NVIDIA-SMI has failed because .*permission`), "no_permission"},
	{text.Lazy(`(?i)^\s*NVIDIA-SMI couldn't find libnvidia-ml`), "library_not_found"},
	{text.Lazy(`(?i)^\S+: (?:error while loading shared libraries|initialization error).*\blibnvidia-ml\.so`), "library_not_found"},
	{text.Lazy(`(?i)^\s*Mismatch in versions between nvidia-smi and NVML`), "smi_nvml_mismatch"},
	{text.Lazy(`(?i)^\s*Failed to initialize NVML: (.*)$`), ""},
	{text.Lazy(`(?i)^(?:docker|\S*nvidia-container-cli): .*\bnvml error: (.*)$`), ""},
	{text.Lazy(`(?i)^\s*No devices were found`), codeNoDevices},
	{text.Lazy(`(?i)^\s*Field ".*" is not a valid field to query`), CodeInvalidField},
	{listError, ""},
	{text.Lazy(`(?i)^\s*Not supported on the device`), "not_supported"},
	{text.Lazy(`(?i)\bnvidia-smi(?:\.exe)?: Permission denied`), "no_permission"},
	{text.Lazy(`(?i)^\s*Invalid combination of input arguments|^\s*(?:ERROR: )?Option \S+ is not recognized`), CodeInvalidArgument},
	{text.Lazy(`(?i)nvidia-smi(?:\.exe)?(?:: (?:command )?not found|' is not recognized as)`), "not_installed"},
}

// listError is the failure of one listing of "nvidia-smi mig", which says nothing
// against the cards that the same text may show.
var listError = text.Lazy(`(?i)^\s*(?:Failed to (?:display|list) [a-z ]+|No (?:GPU|compute) instances found): (.+)$`)

// aside are error lines that only follow another one.
var aside = text.Lazy(`(?i)^\s*(?:Failed to properly shut down NVML|Unable to determine the number of GPUs)`)

const bus = `((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])`

var (
	// The five forms of drivers 300 to 610: "GPU 0000:0C:00.0", "gpu 0000:…" (-L),
	// "GPU0000:91:00.0", "GPU1: 0000:84:00.0" and "GPU1" alone.
	handleError = text.Lazy(`(?i)^\s*Unable to (?:determine|detect|get|read|query|retrieve)\b[^:]*?\bGPU\s*` +
		`(?:(\d{1,3})\s*(?::\s+|:?$))?` + bus + `?\s*:?\s*(.*)$`)
	// An address that is none, copied by hand or cut.
	notAddress = text.Lazy(`(?i)^[0-9a-f:.]*:[0-9a-f:.]*\s*:\s+`)
	infoROM    = text.Lazy(`(?i)infoROM is corrupted at gpu\s*` + bus)
	// The kernel interface's own words, printed before the error they explain.
	preamble = text.Lazy(`(?i)^\s*NVIDIA: .*/dev/nvidia`)
	// The further lines of the two messages that have some.
	more = text.Lazy(`(?i)^\s*(?:This may be because|attached, or the attached cables|` +
		`module detected an issue with GPU interrupts|Chapter of the NVIDIA Driver README|details and steps that can be taken)`)
)

// scan takes the error lines out of the text: they stand between valid rows.
func (d *document) scan() {
	before := "" // a preamble
	for i := range d.lines {
		line := strings.TrimSpace(d.lines[i])
		switch {
		case !telling(line):
			continue
		case preamble.MatchString(line):
			before = line + "\n"
		case aside.MatchString(line):
		case d.cardError(i, before):
			before = ""
		case d.toolError(i, line):
		default:
			continue
		}
		d.lines[i] = ""
	}
}

// marks are in every line that the expressions here look for; searching for them
// first costs a tenth of the expressions.
var marks = []string{
	"nvml", "/dev/nvidia", "libnvidia", "unable to", "failed to", "inforom", "mismatch", "not found", "were found",
	"instances found", "not a valid", "communicate", "has failed", "not recognized", "invalid combination",
	"not supported on", "permission denied",
}

func telling(line string) bool {
	if line == "" || strings.IndexByte("|+<", line[0]) >= 0 { // a table's or XML's
		return false
	}
	line = strings.ToLower(line)
	return slices.ContainsFunc(marks, func(m string) bool { return strings.Contains(line, m) })
}

// cardError reads a line that blames one card; before is what was said before it.
func (d *document) cardError(at int, before string) bool {
	line := d.lines[at]
	f := failure{line: at}
	switch m := handleError.FindStringSubmatch(line); {
	case m != nil && (m[1] != "" || m[2] != ""):
		f.Index, f.BusID, f.Code = text.Int(m[1]), text.BusID(m[2]), handleCode(m[3])
	case m != nil && strings.Contains(strings.ToLower(line), "device handle"):
		f.Code = handleCode(m[3])
	default:
		if m := infoROM.FindStringSubmatch(line); m != nil {
			f.BusID, f.Code, f.warning = text.BusID(m[1]), CodeInfoROM, true
		}
	}
	if f.Code == "" {
		return false
	}
	f.Message = before + strings.TrimSpace(line)
	for i := at + 1; i < len(d.lines) && more.MatchString(d.lines[i]); i++ {
		f.Message += "\n" + strings.TrimSpace(d.lines[i])
		d.lines[i] = ""
	}
	f.Index = cmp.Or(f.Index, selected(d.args))
	if f.Index == nil && f.BusID == "" {
		d.unnamed = &problem{at, f.Code, f.Message}
	} else {
		d.failures = append(d.failures, f)
	}
	return true
}

// handleCode is the code of the words after "Unable to determine the device handle".
func handleCode(words string) string {
	words = notAddress.ReplaceAllString(strings.ToLower(strings.TrimSpace(words)), "")
	reason, _, _ := strings.Cut(words, ".")
	switch code, known := nvmlCodes[reason]; {
	case strings.Contains(words, "insufficiently powered"):
		return codePower
	case strings.HasPrefix(words, "the nvidia kernel"):
		return codeInterrupt
	case known && code != codeUnknown:
		return code
	case reason == "":
		return "handle_unknown_error"
	}
	return "handle_" + snake(reason)
}

// toolError reads a line by which the tool fails as a whole.
func (d *document) toolError(at int, line string) bool {
	for _, e := range toolErrors {
		m := e.pattern.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		code := e.code
		if code == "" {
			code = nvmlCode(m[1])
		}
		if e.pattern == listError {
			if code == "not_found" { // an empty list
				return false
			}
			at = -1
		}
		d.fatal = &problem{at, code, line}
		return true
	}
	return false
}

// nvmlCode is the code of NVML's error text, which advice or the words of a
// caller may follow.
func nvmlCode(words string) string {
	words = strings.ToLower(strings.TrimSpace(words))
	reason := words
	if end := strings.IndexAny(words, ".:"); end >= 0 {
		reason = words[:end]
	}
	for _, w := range []string{words, reason} {
		if code, ok := nvmlCodes[w]; ok {
			return code
		}
	}
	return cmp.Or(snake(reason), codeUnknown)
}

var notWord = text.Lazy(`[^a-z0-9]+`)

// snake makes a code of words that have none of their own.
func snake(words string) string {
	const most = 40
	s := notWord.ReplaceAllString(strings.ToLower(words), "_")
	return strings.Trim(s[:min(len(s), most)], "_")
}

func firstWords(lines []string, exitCode int) string {
	const most = 200
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			return strings.ToValidUTF8(line[:min(len(line), most)], "")
		}
	}
	return fmt.Sprintf("nvidia-smi ended with exit status %d and no words", exitCode)
}
