package cards

import (
	"strings"

	"github.com/heteroflow/node-agent/protocol"
)

// weight is what a failure says of a card.
type weight int

const (
	// unusable: the card cannot be used, or nobody could tell.
	unusable weight = iota
	// standing: a warning that stays while the card goes on working.
	standing
)

// weights has what each code of protocol.CollectFailure weighs. A code that is
// not here, of a newer agent, is unusable: a card is rather kept from a task than
// given to one for nothing. Those of the first group are of every vendor.
var weights = map[string]weight{
	"missing":       unusable, // listed before, and no more
	"not_listed":    unusable, // on the bus, but the vendor's tool does not list it
	"no_driver":     unusable, // on the bus, and no driver answers
	"tool_failed":   unusable, // the question about this card could not be asked
	"tool_timeout":  unusable,
	"tool_hung":     unusable,
	"card_error":    unusable, // the tool says "error" of the card
	"hung":          unusable, // it reads values that no card has
	"unhealthy":     unusable, // the tool's own verdict
	"no_permission": unusable, // this card is not the agent's to ask

	// NVIDIA
	"gpu_lost":           unusable,
	"fallen_off_bus":     unusable,
	"reset_required":     unusable,
	"reboot_required":    unusable,
	"insufficient_power": unusable,
	"interrupt_issue":    unusable,
	"telemetry_error":    unusable, // it answers with errors only
	"inforom_corrupted":  standing, // nvidia-smi warns, with status 14, beside complete rows

	// Ascend
	"card_query_failed": unusable,
	"device_occupied":   unusable, // by another container
	"fault_event":       unusable,
	"incomplete_row":    unusable,
	"no_reading":        unusable,
	"not_supported":     unusable, // the card does not know the question for its health
	"health_alarm":      unusable,
	"health_critical":   unusable,
	"health_unknown":    unusable, // not there, or not started
	"health_warning":    standing, // it wants a reset at the next opportunity
	"duplicate_device":  standing, // one die is listed twice, and works

	// the others
	"unparsed_row":      unusable, // Biren: not the fields that were asked for
	"no_such_card":      unusable, // Cambricon
	"driver_state":      unusable,
	"permission_denied": unusable, // Hygon: the card's node is not the agent's to open
	"no_drm_device":     unusable,
	"device_state":      unusable, // Kunlunxin: the driver has it in its error state
	"not_available":     unusable, // MetaX
}

// prefixes are of the codes that carry a number or words of the driver, of which
// weights has some.
var prefixes = map[string]weight{
	"xid_":    unusable, // NVIDIA: the agent reports those only that take the card
	"handle_": unusable, // NVIDIA: no handle of the card, and why
	"health_": unusable, // Ascend: the tool's word
}

// weightOf returns what a code weighs.
func weightOf(code string) weight {
	if w, ok := weights[code]; ok {
		return w
	}
	for prefix, w := range prefixes {
		if strings.HasPrefix(code, prefix) {
			return w
		}
	}
	return unusable
}

// failureOf returns the failure that the heartbeat reports of a card: one that
// makes it unusable before one that it stands with.
func failureOf(d protocol.Device, beat protocol.Heartbeat) (found protocol.CollectFailure, ok bool) {
	for _, f := range beat.GPUCollectFailures {
		if !about(f, d) {
			continue
		}
		if weightOf(f.Code) == unusable {
			return f, true
		}
		if !ok {
			found, ok = f, true
		}
	}
	return found, ok
}

// about tells whether a failure names the card.
func about(f protocol.CollectFailure, d protocol.Device) bool {
	switch {
	case otherVendor(f.Vendor, d):
		return false
	case f.UUID != "" && d.UUID != "":
		return f.UUID == d.UUID
	case f.BusID != "" && d.BusID != "":
		return f.BusID == d.BusID
	}
	return f.Index != nil && *f.Index == d.Index
}
