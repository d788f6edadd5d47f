package ascend

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
)

// healthOf maps npu-smi's word. UNKNOWN means that the device does not exist or
// was not started. A word not known here is left to the reader.
func healthOf(word string) (health, message string) {
	switch strings.ToLower(word) {
	case "":
		return "", ""
	case "ok":
		return gpu.HealthOK, ""
	case "warning":
		return gpu.HealthWarning, word
	case "alarm", "critical", "unknown":
		return gpu.HealthFailed, word
	}
	return "", word
}

// sickness is the failure that a health word stands for, if it does: a warning
// is one too, it wants a reset of the card. why is the tool's explanation.
func sickness(d gpu.Device, word, why string) (gpu.Failure, bool) {
	switch health, _ := healthOf(word); health {
	case gpu.HealthWarning, gpu.HealthFailed:
	default:
		return gpu.Failure{}, false
	}
	message := "health " + word
	if why != "" {
		message += ": " + why
	}
	return failure(d, codeHealth+strings.ToLower(word), message), true
}

func failure(d gpu.Device, code, message string) gpu.Failure {
	return gpu.Failure{Index: d.Index, UUID: d.UUID, BusID: d.BusID, Code: code, Message: message}
}

// measured reports whether s holds anything beside whose row it is.
func measured(s gpu.Stats) bool {
	s.Index, s.UUID = nil, ""
	return s != gpu.Stats{}
}
