package nvml

import (
	"context"
	"fmt"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/cdi/spec"
	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

// Specs is a spec.Source: NVIDIA's own generator, in the helper. It needs
// nvidia-cdi-hook and the driver's libraries on the host. Its specs have hooks,
// so they are for engines that know CDI: for one that does not, they cannot be
// translated.
type Specs struct {
	Client *Client
	// Else makes the spec when NVIDIA's generator does not; nil: that is an error.
	Else spec.Source
	// Hook is nvidia-cdi-hook, as the host calls it; "" means where the package
	// puts it.
	Hook string
}

// Make implements spec.Source. When Else makes the spec, what it says to be
// omitted has the reason.
func (s *Specs) Make(ctx context.Context, vendor gpu.Vendor, devices []gpu.Device) (spec.Made, error) {
	made, err := s.make(ctx, devices)
	if err == nil || s.Else == nil || ctx.Err() != nil {
		return made, err
	}
	reason := err.Error()
	if made, err = s.Else.Make(ctx, vendor, devices); err != nil {
		return made, fmt.Errorf("%w (and %s)", err, reason)
	}
	made.Omitted = append(made.Omitted, spec.Omission{Path: "hooks of the NVIDIA container toolkit", Reason: reason})
	return made, nil
}

func (s *Specs) make(ctx context.Context, devices []gpu.Device) (spec.Made, error) {
	var made spec.Made
	params := wire.CDIParams{Vendor: "nvidia.com", Class: "gpu", Hook: s.Hook} // the kind is the caller's to set
	owner := map[string]gpu.Device{}                                           // by the uuids that are asked for
	for _, d := range devices {
		uuids := named(d)
		if len(uuids) == 0 {
			made.Absent = append(made.Absent, spec.Absence{Device: d, Reason: "it has no uuid, or no MIG instance in MIG mode"})
		}
		for _, uuid := range uuids {
			owner[uuid] = d
		}
		params.Devices = append(params.Devices, uuids...)
	}
	if len(params.Devices) == 0 {
		return made, nil
	}
	answer, err := s.Client.CDI(ctx, params)
	if err != nil {
		return spec.Made{}, err
	}
	if made.Spec, err = spec.Parse(answer.Spec); err != nil {
		return spec.Made{}, fmt.Errorf("NVIDIA's generator: %w", err)
	}
	for _, uuid := range params.Devices { // in order
		if reason, ok := answer.Absent[uuid]; ok {
			made.Absent = append(made.Absent, spec.Absence{Device: owner[uuid], Reason: clean(reason)})
		}
	}
	return made, nil
}

// named are the uuids of what a container can be given of a card: itself, or in
// MIG mode its instances.
func named(d gpu.Device) []string {
	var list []string
	if d.MIGMode != gpu.MIGEnabled && d.UUID != "" {
		list = append(list, d.UUID)
	}
	for _, i := range d.Instances {
		if d.MIGMode == gpu.MIGEnabled && i.UUID != "" {
			list = append(list, i.UUID)
		}
	}
	return list
}

// CDI returns the CDI spec that NVIDIA's own generator makes. The error says
// what is missing, and wraps tool.ErrNotInstalled when there is no helper to ask.
func (c *Client) CDI(ctx context.Context, params wire.CDIParams) (wire.CDI, error) {
	if params.Root == "" {
		params.Root = c.cfg.HostRoot
	}
	var answer wire.CDI
	if err := c.ask(ctx, wire.MethodCDI, params, &answer); err != nil {
		return wire.CDI{}, fmt.Errorf("make CDI spec: %w", err)
	}
	return answer, nil
}
