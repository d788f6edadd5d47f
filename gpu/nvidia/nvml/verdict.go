package nvml

import (
	"fmt"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

// verdict is what a card's answers say of its health.
type verdict struct {
	code, message string // of the failure; "" when the card works
	warnings      []string
	noAction      bool // the driver says that nothing needs to be done
}

func (v verdict) health() (word, message string) {
	switch {
	case v.code != "":
		return gpu.HealthFailed, v.message
	case len(v.warnings) > 0:
		return gpu.HealthWarning, strings.Join(v.warnings, "; ")
	}
	return gpu.HealthOK, ""
}

// actions are the values of nvmlDeviceGpuRecoveryAction (nvml.h).
var actions = []struct{ code, name string }{
	{"", "None"},
	{"reset_required", "GPU Reset"},
	{"reboot_required", "Node Reboot"},
	{"", "Drain P2P"},
	{"reset_required", "Drain and Reset"},
	{"", "Recover IMEX Domain"},
	{"reset_required", "Bus Reset"},
	{"reboot_required", "System Reboot"},
}

// held are the bits of nvmlClocksEventReason by which the hardware itself holds
// the clocks down. The others are the settings' doing, or a healthy card's.
var held = []struct {
	bit  uint64
	name string
}{
	{0x40, "temperature"},
	{0x80, "external power brake"},
}

// judge says whether a card has failed. One reading that fails is no failure (a
// fan, the power of an idle card); a card without its name, or without two of
// temperature, power and utilisation, does not answer.
func judge(c wire.Card) verdict {
	v := verdict{warnings: warnings(c)}
	action(c, &v)
	switch answers := answers(c); {
	case slices.Contains(answers, wire.GPULost):
		v.code, v.message = "gpu_lost", "GPU is lost"
	case slices.Contains(answers, wire.ResetRequired):
		v.code, v.message = "reset_required", "GPU requires reset"
	case v.code == "":
		v.code, v.message = silence(c)
	}
	return v
}

// answers are the return values of the calls that failed.
func answers(c wire.Card) []wire.Return {
	var list []wire.Return
	for _, r := range c.Failed {
		list = append(list, r)
	}
	return list
}

// action takes the driver's own judgement, in its form since 570, else in that
// since 535.
func action(c wire.Card, v *verdict) {
	switch {
	case c.RecoveryAction != nil && *c.RecoveryAction == 0, c.RecoveryAction == nil && c.ResetStatus != nil && *c.ResetStatus == 0:
		v.noAction = true
	case c.RecoveryAction != nil:
		name := fmt.Sprint(*c.RecoveryAction)
		if n := int(*c.RecoveryAction); n < len(actions) {
			name, v.code = actions[n].name, actions[n].code
		}
		words := "GPU Recovery Action: " + name
		if v.code != "" {
			v.message = words
		} else {
			v.warnings = append(v.warnings, words)
		}
	case c.ResetStatus != nil && *c.ResetStatus == 1:
		v.code, v.message = "reset_required", "the driver says that the card requires a reset"
	}
}

// silence tells that a card gives errors in place of readings.
func silence(c wire.Card) (code, message string) {
	var broken []string
	for _, field := range []string{wire.FieldName, wire.FieldTemperature, wire.FieldPower, wire.FieldUtilization} {
		if r := c.Failed[field]; r == wire.Unknown || r == wire.Timeout {
			broken = append(broken, field)
		}
	}
	if len(broken) > 1 || slices.Contains(broken, wire.FieldName) {
		return "telemetry_error", "NVML gives an error for " + strings.Join(broken, ", ")
	}
	return "", ""
}

func warnings(c wire.Card) []string {
	var list []string
	if c.ECCErrors != nil && *c.ECCErrors > 0 {
		list = append(list, fmt.Sprintf("uncorrectable ECC errors: %d", *c.ECCErrors))
	}
	if isTrue(c.RowsFailed) {
		list = append(list, "row remapping failed")
	}
	if isTrue(c.RowsPending) || isTrue(c.PagesPending) {
		list = append(list, "row remapping or page retirement is pending a reset")
	}
	if slices.Contains(answers(c), wire.CorruptedInfoROM) {
		list = append(list, "infoROM is corrupted")
	}
	for _, h := range held {
		if c.ClockReasons != nil && *c.ClockReasons&h.bit != 0 {
			list = append(list, "the hardware holds the clocks down: "+h.name)
		}
	}
	return list
}

func isTrue(b *bool) bool { return b != nil && *b }
