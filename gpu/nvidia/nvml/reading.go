package nvml

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/nvidia"
	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
	"github.com/heteroflow/node-agent/gpu/nvidia/xid"
	"github.com/heteroflow/node-agent/gpu/text"
)

// cards asks for the cards and says what the answer means.
func (c *Client) cards(ctx context.Context, full bool) (nvidia.Reading, error) {
	var answer wire.Cards
	err := c.ask(ctx, wire.MethodCards, wire.CardsParams{Full: full}, &answer)
	if failure, ok := errors.AsType[*wire.Error](err); ok && !errors.As(err, new(*UnavailableError)) {
		return failed(codeOf(failure), failure.Message), nil
	}
	if err != nil {
		return nvidia.Reading{}, err
	}
	r := read(answer)
	if r.Topology != nil && full {
		r.Topology.NICs = nics(c.cfg.Sysfs, r.Devices)
	}
	return r, nil
}

// failed is the reading of a driver that does not work.
func failed(code, message string) nvidia.Reading {
	return nvidia.Reading{Report: gpu.Report{
		Vendor: gpu.NVIDIA, CollectorError: &gpu.CollectorError{Code: code, Message: message},
	}}
}

// driverCodes are NVML's answers about the machine, by the names that they have
// in nvidia-smi's case, too.
var driverCodes = map[wire.Return]string{
	wire.NoPermission:       "no_permission",
	wire.InsufficientPower:  "insufficient_power",
	wire.DriverNotLoaded:    "driver_not_loaded",
	wire.IRQIssue:           "interrupt_issue",
	wire.GPULost:            "gpu_lost",
	wire.OperatingSystem:    "operating_system_blocked",
	wire.LibVersionMismatch: "lib_rm_version_mismatch",
	wire.GPUNotFound:        "gpu_not_found",
	wire.Unknown:            "nvml_unknown",
}

func codeOf(e *wire.Error) string {
	if e.Code != wire.CodeNVML {
		return e.Code
	}
	if code, ok := driverCodes[e.Return]; ok {
		return code
	}
	return fmt.Sprintf("nvml_%d", e.Return)
}

// read says what an answer means.
func read(answer wire.Cards) nvidia.Reading {
	if len(answer.Cards) == 0 {
		return failed("no_devices", "NVML lists no card")
	}
	if code, message := blocked(answer.Cards); code != "" {
		return failed(code, message)
	}
	r := nvidia.Reading{Report: gpu.Report{Vendor: gpu.NVIDIA, DriverVersion: clean(answer.Driver)}}
	for _, c := range answer.Cards {
		switch {
		case c.Handle == wire.NoPermission: // another's: this process was given others
		case c.Handle != wire.Success:
			r.Failures = append(r.Failures, gpu.Failure{
				Index: &c.Index, BusID: text.BusID(c.BusID), Code: handleCode(c.Handle),
				Message: fmt.Sprintf("NVML cannot open card %d: %s", c.Index, clean(c.Reason)),
			})
		default:
			add(&r, c)
		}
	}
	r.Topology = topology(answer)
	for _, x := range answer.Xids {
		r.Events = append(r.Events, event(x))
	}
	return r
}

// cardCodes are NVML's answers about one card that cannot be opened. Any other
// is about the machine, or about who asks.
var cardCodes = map[wire.Return]string{
	wire.NotFound:          "handle_not_found",
	wire.InsufficientPower: "insufficient_power",
	wire.IRQIssue:          "interrupt_issue",
	wire.GPULost:           "gpu_lost",
	wire.ResetRequired:     "reset_required",
	wire.Unknown:           "handle_unknown_error",
}

// blocked tells that no card can be opened, for a reason that is none of theirs.
func blocked(cards []wire.Card) (code, message string) {
	first := cards[0]
	if first.Handle == wire.Success || cardCodes[first.Handle] != "" {
		return "", ""
	}
	for _, c := range cards {
		if c.Handle != first.Handle {
			return "", ""
		}
	}
	return codeOf(&wire.Error{Code: wire.CodeNVML, Return: first.Handle}),
		fmt.Sprintf("NVML cannot open any of %d cards: %s", len(cards), clean(first.Reason))
}

// handleCode is the code of a card that cannot be opened.
func handleCode(r wire.Return) string {
	if code, ok := cardCodes[r]; ok {
		return code
	}
	return fmt.Sprintf("handle_nvml_%d", r)
}

// add adds a card that could be opened.
func add(r *nvidia.Reading, c wire.Card) {
	d := gpu.Device{
		Index: &c.Index, UUID: uuid(c.UUID, "GPU-"), Vendor: gpu.NVIDIA, Type: gpu.NVIDIA, Model: clean(c.Name),
		BusID: text.BusID(c.BusID), MemoryTotal: size(c.MemoryTotal), DriverVersion: r.DriverVersion,
		FirmwareVersion: clean(c.VBIOS), Serial: clean(c.Serial), Minor: c.Minor,
	}
	if c.MIGMode != nil {
		d.MIGMode = gpu.MIGDisabled
		if *c.MIGMode == 1 {
			d.MIGMode = gpu.MIGEnabled
		}
	}
	for _, i := range c.Instances {
		_, profile, _ := strings.Cut(clean(i.Name), " MIG ")
		d.Instances = append(d.Instances, gpu.Instance{GI: i.GI, CI: i.CI, UUID: uuid(i.UUID, "MIG-"), Profile: profile})
	}
	s := gpu.Stats{
		Index: d.Index, UUID: d.UUID, Temperature: number(c.Temperature, 1), MemoryUsed: size(c.MemoryUsed),
		MemoryTotal: d.MemoryTotal, Power: number(c.Power, 1000), PowerLimit: number(c.PowerLimit, 1000),
	}
	if u := number(c.Utilization, 1); u != nil && *u <= 100 {
		s.Utilization = u
	}
	v := judge(c)
	s.Health, s.HealthMessage = v.health()
	if v.code != "" {
		r.Failures = append(r.Failures, gpu.Failure{Index: d.Index, UUID: d.UUID, BusID: d.BusID, Code: v.code, Message: v.message})
	}
	if v.noAction {
		r.NoAction = append(r.NoAction, d.UUID)
	}
	r.Devices, r.Stats = append(r.Devices, d), append(r.Stats, s)
}

func topology(answer wire.Cards) *gpu.Topology {
	t := gpu.Topology{Kind: string(gpu.NVIDIA)}
	for _, l := range answer.Links {
		t.Links = append(t.Links, gpu.Link{A: l.A, B: l.B, Type: clean(l.Type)})
	}
	for _, c := range answer.Cards {
		if c.Node != nil || c.CPUs != "" {
			t.NUMA = append(t.NUMA, gpu.Affinity{Index: c.Index, Node: c.Node, CPUs: clean(c.CPUs)})
		}
	}
	if t.Links == nil && t.NUMA == nil {
		return nil
	}
	return &t
}

// event is an Xid as the kernel log would tell it.
func event(x wire.XID) gpu.KernelEvent {
	e := gpu.KernelEvent{Kind: xid.KindXID, Code: &x.Code}
	if bus := text.BusID(x.BusID); bus != "" {
		e.BusIDs = []string{bus}
	}
	e.Message = fmt.Sprintf("Xid %d", x.Code)
	if name := xid.Name(x.Code); name != "" {
		e.Message += ": " + name
	}
	if x.GI != nil {
		e.Message += fmt.Sprintf(" (GPU instance %d)", *x.GI)
	}
	e.Message += x.At.UTC().Format(", at 2006-01-02T15:04:05Z")
	return e
}

// clean drops what is not printable from a text of the driver's, and bounds it.
func clean(s string) string {
	const most = 256
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return -1
	}, s)
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// uuid returns s if it is a uuid with that prefix.
func uuid(s, prefix string) string {
	if s = clean(s); strings.HasPrefix(s, prefix) {
		return s
	}
	return ""
}

// size returns a number of bytes, unless it is none that a card has.
func size(n *uint64) *int64 {
	if n == nil || *n > 1<<60 {
		return nil
	}
	return new(int64(*n))
}

// number returns n in units of which one is so many.
func number(n *uint32, one float64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n) / one)
}
