package ascend

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Codes of collector errors and of failures that this package gives.
const (
	CodeOccupied    = "device_occupied"   // dcmi -8020: another container holds the device
	CodeInit        = "dcmi_init_failed"  // the driver is not reachable from here
	CodeLibrary     = "library_missing"   // npu-smi does not find the driver's libraries
	CodeCardQuery   = "card_query_failed" // one card made npu-smi give up
	CodeUnsupported = "not_supported"     // the command, here or on this card
	CodeCommand     = "command_failed"    // "npu-smi set" said no
	CodePermission  = "no_permission"     // only root may ask this
	CodeNoReading   = "no_reading"        // printed as healthy, but nothing was read
	CodeIncomplete  = "incomplete_row"    // half of a chip's two lines is missing
	CodeDuplicate   = "duplicate_device"  // one die listed twice
	CodeFaultEvent  = "fault_event"       // the card has a standing fault event
	codeHealth      = "health_"           // + the tool's word in lower case
)

// meanings explain the return codes of Huawei's library whose number is all that
// the tool prints (dcmi_interface_api.h). Causes of -8005: vllm-ascend issue 2698
// and the driver's own documentation.
var meanings = map[string]string{
	"-8002": "not permitted",
	"-8005": "the driver is not reachable from here: not root, no /dev/davinci_manager " +
		"in this container, or a driver upgraded without a reboot",
	"-8006": "timeout",
	"-8007": "invalid device id",
	"-8008": "the device does not exist",
	"-8012": "the device is not ready",
	"-8013": "not supported in a container",
	"-8017": "the device is being upgraded",
	"-8255": "not supported",
}

var returned = text.Lazy(`\bret is (-\d+)`)

// toolErrors are the words of npu-smi that mean that the command as a whole failed.
var toolErrors = []struct {
	words *text.Pattern
	code  string
}{
	// "model" is the tool's own spelling of "module" in this one.
	{text.Lazy(`dcmi mod\w* initializ\w* failed.*ret is -8020`), CodeOccupied},
	{text.Lazy(`dcmi mod\w* initializ\w* failed|npu get board type failed`), CodeInit},
	{text.Lazy(`error while loading shared libraries`), CodeLibrary},
	{text.Lazy(`(?i)^\s*failed to (get|query) |^There is no NPU chip on this card`), CodeCardQuery},
	{text.Lazy(`(?i)\b(?:permission|privileges?)\b.*\b(?:required|to run)|permission denied`), CodePermission},
	{text.Lazy(`cannot be executed on a|does not support|not supported|not support\b`), CodeUnsupported},
	{text.Lazy(`^Error parameter of |^Command or option is not found`), CodeUnsupported},
	{text.Lazy(`(?i)\bvnpu\b.*\bfailed|^Failed to execute npu-smi`), CodeCommand},
	{text.Lazy(`DrvMngGetConsoleLogLevel failed`), CodeInit},
}

// parseError reads an output that holds nothing but errors.
func parseError(lines []string, _ scope) (gpu.Parsed, bool) {
	for _, e := range toolErrors {
		var said []string
		for _, line := range lines {
			if e.words.MatchString(line) {
				said = append(said, explained(strings.TrimSpace(line)))
			}
		}
		if len(said) > 0 {
			message := strings.Join(slices.Compact(said), "; ")
			return gpu.Parsed{CollectorError: &gpu.CollectorError{Code: e.code, Message: message}}, true
		}
	}
	return gpu.Parsed{}, false
}

// explained adds what a return code means.
func explained(line string) string {
	if m := returned.FindStringSubmatch(line); m != nil && meanings[m[1]] != "" {
		return line + " (" + meanings[m[1]] + ")"
	}
	return line
}

// parseResult reads what "npu-smi set" answers: Status and Message.
func parseResult(lines []string, _ scope) (gpu.Parsed, bool) {
	values := map[string]string{}
	for _, e := range entries(lines) {
		values[e.key] = e.value
	}
	status, ok := values["status"]
	message, both := values["message"]
	if !ok || !both {
		return gpu.Parsed{}, false
	}
	if strings.EqualFold(status, "OK") {
		return gpu.Parsed{}, true
	}
	return gpu.Parsed{CollectorError: &gpu.CollectorError{Code: CodeCommand, Message: message}}, true
}
