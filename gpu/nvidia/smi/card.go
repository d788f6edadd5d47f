package smi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// field is a value that several forms of the output give under different names.
type field int

const (
	fieldOther field = iota // not of interest; its words may still tell a fault
	fieldIndex
	fieldUUID
	fieldModel
	fieldBusID
	fieldPCIDomain // the address in parts
	fieldPCIBus
	fieldPCIDevice
	fieldSerial
	fieldVBIOS
	fieldDriver
	fieldMinor
	fieldMemoryTotal
	fieldMemoryUsed
	fieldUtilization
	fieldTemperature
	fieldPower
	fieldPowerInstant
	fieldPowerAverage
	fieldPowerLimit
	fieldPowerEnforced
	fieldMIGMode
	fieldAction
	fieldReset // whether a reset is required; before fieldAction, drivers 535 to 565
	fieldECC   // uncorrectable errors since the driver was loaded
	fieldRemapFailure
	fieldRemapPending
)

// readings are the fields whose errors together tell that a card does not
// answer, and what they are called in a message.
var readings = []struct {
	field field
	name  string
}{
	{fieldModel, "name"},
	{fieldTemperature, "temperature"},
	{fieldPower, "power"},
	{fieldUtilization, "utilisation"},
}

// card gathers what one output says of one card.
type card struct {
	line     int // where it was seen last
	device   gpu.Device
	stats    gpu.Stats
	instant  *float64
	average  *float64
	enforced *float64
	action   string // the GPU Recovery Action
	fault    string // codeLost or codeReset, from a value's place
	broken   []field
	pci      [3]string // domain, bus, device
	word     string    // by which a reading says that it is broken
	warnings []string
	failed   bool // a failure line blames it

	// What "-q" lists below a card whose number it does not print.
	migs      []gpu.MIGDevice
	processes []gpu.Process
}

// phrases stand in a value's place, with or without brackets.
var phrases = []string{
	"unknown error", "not supported", "function not found", "requested functionality has been deprecated",
	"insufficient permissions", "not found", "no data", "gpu access blocked by the operating system",
	"not available in wddm driver model", "unknown", "none", "driver not loaded", "timeout",
	"gpu is lost", "gpu requires reset",
}

// bare is a value without brackets, lower case.
func bare(value string) string {
	return strings.ToLower(strings.Trim(strings.TrimSpace(value), "[]"))
}

// unread reports whether a value's place holds no value.
func unread(value string) bool {
	return text.Absent(value) || slices.Contains(phrases, bare(value))
}

// set takes one value in the words of the tool.
func (c *card) set(f field, value string) {
	value = strings.TrimSpace(value)
	switch {
	case f == fieldAction && !text.Absent(value):
		c.action = value
	case unread(value):
		c.unread(f, value)
	default:
		c.setDevice(f, value)
		c.setStats(f, value)
		c.setWarning(f, value)
	}
}

// setDevice takes what a card is.
func (c *card) setDevice(f field, value string) {
	switch d := &c.device; f {
	case fieldIndex:
		d.Index = text.Natural(value)
	case fieldUUID:
		if strings.HasPrefix(value, "GPU-") {
			d.UUID = value
		}
	case fieldModel:
		d.Model = value
	case fieldBusID:
		d.BusID = text.BusID(value)
	case fieldPCIDomain, fieldPCIBus, fieldPCIDevice:
		c.pci[f-fieldPCIDomain] = value
	case fieldSerial:
		d.Serial = value
	case fieldVBIOS:
		d.FirmwareVersion = value
	case fieldDriver: // 610 appends "[Deprecated; …]"
		d.DriverVersion, _, _ = strings.Cut(value, " ")
	case fieldMinor:
		d.Minor = text.Natural(value)
	case fieldMemoryTotal:
		d.MemoryTotal = text.MiB(value)
	case fieldMIGMode:
		c.migMode(value)
	default:
	}
}

// setStats takes what was measured.
func (c *card) setStats(f field, value string) {
	switch s := &c.stats; f {
	case fieldMemoryUsed:
		s.MemoryUsed = text.MiB(value)
	case fieldUtilization:
		if p := text.Percent(value); p != nil && *p >= 0 && *p <= 100 {
			s.Utilization = p
		}
	case fieldTemperature:
		s.Temperature = text.Celsius(value)
	case fieldPower:
		s.Power = text.Watts(value)
	case fieldPowerInstant:
		c.instant = text.Watts(value)
	case fieldPowerAverage:
		c.average = text.Watts(value)
	case fieldPowerLimit:
		s.PowerLimit = text.Watts(value)
	case fieldPowerEnforced:
		c.enforced = text.Watts(value)
	case fieldReset:
		c.resetStatus(value)
	default:
	}
}

// migMode takes the mode now: a star marks a pending other one.
func (c *card) migMode(value string) {
	switch mode := strings.ToLower(strings.TrimSuffix(value, "*")); mode {
	case gpu.MIGEnabled, gpu.MIGDisabled:
		c.device.MIGMode = mode
	}
}

// resetStatus takes the older form of the recovery action.
func (c *card) resetStatus(value string) {
	switch {
	case c.action != "":
	case strings.EqualFold(value, "yes"):
		c.fault = cmp.Or(c.fault, codeReset)
	case strings.EqualFold(value, "no"):
		c.action = actionNone
	}
}

func (c *card) setWarning(f field, value string) {
	yes := strings.EqualFold(value, "yes") || value == "1"
	switch n := text.Float(value, ""); {
	case f == fieldECC && n != nil && *n > 0:
		c.warn("uncorrectable ECC errors: " + value)
	case f == fieldRemapFailure && yes:
		c.warn("row remapping failed")
	case f == fieldRemapPending && yes:
		c.warn("row remapping or page retirement is pending a reset")
	}
}

func (c *card) warn(message string) {
	if !slices.Contains(c.warnings, message) {
		c.warnings = append(c.warnings, message)
	}
}

// unread notes what the words in a value's place tell of the card.
func (c *card) unread(f field, value string) {
	switch bare(value) {
	case "gpu is lost":
		c.fault = codeLost
	case "gpu requires reset":
		if c.fault == "" {
			c.fault = codeReset
		}
	case "err!", "unknown error":
		c.word = value
		if !slices.Contains(c.broken, f) {
			c.broken = append(c.broken, f)
		}
	}
}

// sick reports whether words in a value's place speak against the card.
func (c *card) sick() bool { return c.word != "" || c.fault != "" }

// named reports whether the card can be told from others.
func (c *card) named() bool {
	return c.device.Index != nil || c.device.UUID != "" || c.device.BusID != ""
}

// measured reports whether a number was read.
func (c *card) measured() bool {
	d, s := c.device, c.stats
	return d.MemoryTotal != nil || s.MemoryUsed != nil || s.Temperature != nil || s.Utilization != nil ||
		s.Power != nil || c.instant != nil || c.average != nil || s.PowerLimit != nil || c.enforced != nil
}

// empty reports whether no value at all was read: such a row is no card.
func (c *card) empty() bool {
	return !c.named() && !c.measured() && c.device.Model == "" && c.device.Serial == ""
}

// blame notes the line of the output that is about this card.
func (c *card) blame(f failure) {
	if f.warning {
		c.warn(f.Message)
		return
	}
	c.failed = true
	c.stats.Health, c.stats.HealthMessage = gpu.HealthFailed, f.Message
}

// actionNone and actions are the driver's GPU Recovery Action (nvml.h), since 570.
const actionNone = "None"

var actions = map[string]string{
	"reset": codeReset, "gpu reset": codeReset, "drain and reset": codeReset, "bus reset": codeReset,
	"reboot": codeReboot, "node reboot": codeReboot, "system reboot": codeReboot,
}

// finish completes device and measurements, and returns the failure that the
// card's own row tells of.
func (c *card) finish() *gpu.Failure {
	d, s := &c.device, &c.stats
	d.Vendor, d.Type = gpu.NVIDIA, gpu.NVIDIA
	s.Index, s.UUID, s.MemoryTotal = d.Index, d.UUID, d.MemoryTotal
	for _, w := range []*float64{c.instant, c.average} {
		if s.Power == nil {
			s.Power = w
		}
	}
	if c.enforced != nil { // the lowest of all limits: what holds
		s.PowerLimit = c.enforced
	}
	code, message := c.verdict()
	if code == "" || c.failed {
		c.sayHealth()
		return nil
	}
	s.Health, s.HealthMessage = gpu.HealthFailed, message
	if !c.named() {
		return nil // nothing to name it by; its row says it
	}
	return &gpu.Failure{Index: d.Index, UUID: d.UUID, BusID: d.BusID, Code: code, Message: message}
}

func (c *card) sayHealth() {
	if c.failed {
		return
	}
	c.stats.Health = gpu.HealthOK
	if len(c.warnings) > 0 {
		c.stats.Health, c.stats.HealthMessage = gpu.HealthWarning, strings.Join(c.warnings, "; ")
	}
}

// verdict says whether the card has failed. One reading that is missing is no
// failure (a fan, the power of an idle card); a card without its name, or
// without two of temperature, power and utilisation, does not answer.
func (c *card) verdict() (code, message string) {
	switch c.fault {
	case codeLost:
		return codeLost, "GPU is lost"
	case codeReset:
		return codeReset, "GPU requires reset"
	}
	switch code, known := actions[strings.ToLower(c.action)]; {
	case known:
		return code, "GPU Recovery Action: " + c.action
	case c.action != "" && c.action != actionNone && !unread(c.action):
		c.warn("GPU Recovery Action: " + c.action)
	}
	var names []string
	for _, r := range readings {
		if slices.Contains(c.broken, r.field) {
			names = append(names, r.name)
		}
	}
	if slices.Contains(c.broken, fieldModel) || len(names) > 1 {
		return codeTelemetry, c.word + " in " + strings.Join(names, ", ")
	}
	return "", ""
}
