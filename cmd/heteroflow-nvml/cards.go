//go:build cgo

package main

import (
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
	"github.com/heteroflow/node-agent/gpu/text"
)

// opened is a card whose handle was given out.
type opened struct {
	nvml.Device
	card *wire.Card
}

func (h *helper) allCards(raw json.RawMessage) (any, *wire.Error) {
	p, failure := params[wire.CardsParams](raw)
	if failure != nil {
		return nil, failure
	}
	if failure := h.ready(); failure != nil {
		return nil, failure
	}
	count, ret := h.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, failed("count the cards", ret)
	}
	answer := wire.Cards{Library: h.lib.file, Cards: make([]wire.Card, count)}
	if answer.Driver, ret = h.lib.SystemGetDriverVersion(); ret != nvml.SUCCESS {
		return nil, failed("read the driver's version", ret)
	}
	if h.lib.has("nvmlSystemGetNVMLVersion") {
		answer.NVML, _ = h.lib.SystemGetNVMLVersion() // for people
	}
	var cards []opened
	for i := range answer.Cards {
		card := &answer.Cards[i]
		card.Index = i
		device, ret := h.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			card.Handle, card.Reason = wire.Return(ret), ret.String()
			continue
		}
		r := reading{lib: h.lib, opened: opened{device, card}}
		r.identify()
		r.measure()
		if p.Full {
			r.describe()
		}
		if !r.lost {
			cards = append(cards, r.opened)
		}
	}
	h.nameUnopened(answer.Cards)
	if p.Full {
		answer.Links = h.lib.links(cards)
	}
	answer.Xids, answer.Watch = h.xids.take()
	return answer, nil
}

// nameUnopened gives the one card that could not be opened the one address that
// the driver has and no other card gave. Two such cards could be taken for each
// other: they have their index only.
func (h *helper) nameUnopened(cards []wire.Card) {
	left := slices.Clone(h.cards)
	var unopened *wire.Card
	for i := range cards {
		c := &cards[i]
		if c.Handle == wire.Success {
			left = slices.DeleteFunc(left, func(bus string) bool { return text.BusID(bus) == text.BusID(c.BusID) })
			continue
		}
		if unopened != nil {
			return
		}
		unopened = c
	}
	if unopened != nil && len(left) == 1 {
		unopened.BusID = left[0]
	}
}

// reading asks one card.
type reading struct {
	opened
	lib  *library
	lost bool // it fell off the bus: each further call may block for long
}

// ask makes one call, if the library has it, and notes how it failed. That the
// card does not support it, or has nothing of the kind, is no failure.
func ask[T any](r *reading, field, symbol string, call func() (T, nvml.Return)) *T {
	if r.lost || !r.lib.has(symbol) {
		return nil
	}
	value, ret := call()
	switch ret {
	case nvml.SUCCESS:
		return &value
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_NOT_FOUND, nvml.ERROR_DEPRECATED:
		return nil
	case nvml.ERROR_GPU_IS_LOST:
		r.lost = true
	default:
	}
	if r.card.Failed == nil {
		r.card.Failed = map[string]wire.Return{}
	}
	r.card.Failed[field] = wire.Return(ret)
	return nil
}

// word is ask for a text.
func word(r *reading, field, symbol string, call func() (string, nvml.Return)) string {
	if s := ask(r, field, symbol, call); s != nil {
		return strings.TrimSpace(*s)
	}
	return ""
}

func (r *reading) identify() {
	c := r.card
	c.UUID = word(r, "uuid", "nvmlDeviceGetUUID", r.GetUUID)
	if pci := ask(r, "pci", "nvmlDeviceGetPciInfo_v3", r.GetPciInfo); pci != nil {
		c.BusID = busID(*pci)
	}
	c.Name = word(r, wire.FieldName, "nvmlDeviceGetName", r.GetName)
}

// busID is the address in PciInfo.
func busID(p nvml.PciInfo) string {
	var b strings.Builder
	for _, c := range p.BusId {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

func (r *reading) measure() {
	c := r.card
	r.memory()
	c.Temperature = ask(r, wire.FieldTemperature, "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) {
		return r.GetTemperature(nvml.TEMPERATURE_GPU)
	})
	if u := ask(r, wire.FieldUtilization, "nvmlDeviceGetUtilizationRates", r.GetUtilizationRates); u != nil {
		c.Utilization = &u.Gpu
	}
	c.Power = ask(r, wire.FieldPower, "nvmlDeviceGetPowerUsage", r.GetPowerUsage)
	c.PowerLimit = ask(r, "power_limit", "nvmlDeviceGetEnforcedPowerLimit", r.GetEnforcedPowerLimit)
	c.Energy = ask(r, "energy", "nvmlDeviceGetTotalEnergyConsumption", r.GetTotalEnergyConsumption)
	c.ClockReasons = ask(r, "clocks_event_reasons", "nvmlDeviceGetCurrentClocksEventReasons", r.GetCurrentClocksEventReasons)
	if c.ClockReasons == nil { // the name before driver 535
		c.ClockReasons = ask(r, "clocks_event_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", r.GetCurrentClocksThrottleReasons)
	}
	r.memoryErrors()
	r.recovery()
	type modes struct{ now, pending int }
	if m := ask(r, "mig_mode", "nvmlDeviceGetMigMode", func() (modes, nvml.Return) {
		now, pending, ret := r.GetMigMode()
		return modes{now, pending}, ret
	}); m != nil {
		c.MIGMode, c.MIGPending = &m.now, &m.pending
	}
}

// memory prefers the call that does not count what the driver keeps for itself
// as used, as nvidia-smi does.
func (r *reading) memory() {
	if m := ask(r, "memory", "nvmlDeviceGetMemoryInfo_v2", r.GetMemoryInfo_v2); m != nil {
		r.card.MemoryTotal, r.card.MemoryUsed = &m.Total, &m.Used
	} else if m := ask(r, "memory", "nvmlDeviceGetMemoryInfo", r.GetMemoryInfo); m != nil {
		r.card.MemoryTotal, r.card.MemoryUsed = &m.Total, &m.Used
	}
}

func (r *reading) memoryErrors() {
	c := r.card
	c.ECCErrors = ask(r, "ecc", "nvmlDeviceGetTotalEccErrors", func() (uint64, nvml.Return) {
		return r.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC)
	})
	type rows struct{ pending, failed bool }
	if m := ask(r, "remapped_rows", "nvmlDeviceGetRemappedRows", func() (rows, nvml.Return) {
		_, _, pending, failed, ret := r.GetRemappedRows()
		return rows{pending, failed}, ret
	}); m != nil {
		c.RowsPending, c.RowsFailed = &m.pending, &m.failed
	}
	// Cards before Ampere retire pages, later ones remap rows.
	if c.RowsPending == nil {
		if s := ask(r, "retired_pages", "nvmlDeviceGetRetiredPagesPendingStatus", r.GetRetiredPagesPendingStatus); s != nil {
			c.PagesPending = new(*s == nvml.FEATURE_ENABLED)
		}
	}
}

// recovery asks what the driver wants done with the card. A field that the
// driver does not know, or the card does not have, fails for itself.
func (r *reading) recovery() {
	fields := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}, {FieldId: nvml.FI_DEV_RESET_STATUS}}
	if ask(r, "recovery_action", "nvmlDeviceGetFieldValues", func() (struct{}, nvml.Return) {
		return struct{}{}, r.GetFieldValues(fields)
	}) == nil {
		return
	}
	for i, to := range []**uint32{&r.card.RecoveryAction, &r.card.ResetStatus} {
		if f := fields[i]; nvml.Return(f.NvmlReturn) == nvml.SUCCESS && nvml.ValueType(f.ValueType) == nvml.VALUE_TYPE_UNSIGNED_INT {
			*to = new(binary.NativeEndian.Uint32(f.Value[:]))
		}
	}
}

// describe asks for what stays.
func (r *reading) describe() {
	c := r.card
	c.Serial = word(r, "serial", "nvmlDeviceGetSerial", r.GetSerial)
	c.VBIOS = word(r, "vbios", "nvmlDeviceGetVbiosVersion", r.GetVbiosVersion)
	c.Minor = ask(r, "minor", "nvmlDeviceGetMinorNumber", r.GetMinorNumber)
	if c.MIGMode != nil && *c.MIGMode == nvml.DEVICE_MIG_ENABLE {
		c.Instances = r.instances()
	}
	r.affinity()
}

// instances lists the MIG devices. Their places have gaps.
func (r *reading) instances() []wire.Instance {
	if r.lib.lacks("nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId") != "" {
		return nil
	}
	places := ask(r, "mig_devices", "nvmlDeviceGetMaxMigDeviceCount", r.GetMaxMigDeviceCount)
	if places == nil {
		return nil
	}
	var list []wire.Instance
	for i := range *places {
		handle := ask(r, "mig_device", "nvmlDeviceGetMigDeviceHandleByIndex", func() (nvml.Device, nvml.Return) {
			return r.GetMigDeviceHandleByIndex(i)
		})
		if handle == nil {
			continue
		}
		mig := *handle
		list = append(list, wire.Instance{
			UUID: word(r, "mig_uuid", "nvmlDeviceGetUUID", mig.GetUUID),
			Name: word(r, "mig_name", "nvmlDeviceGetName", mig.GetName),
			GI:   ask(r, "mig_gi", "nvmlDeviceGetGpuInstanceId", mig.GetGpuInstanceId),
			CI:   ask(r, "mig_ci", "nvmlDeviceGetComputeInstanceId", mig.GetComputeInstanceId),
		})
	}
	return list
}
