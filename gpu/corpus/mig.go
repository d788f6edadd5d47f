package corpus

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// mig compares what MIG and MPS commands say.
func (f File) mig(p *problems, got gpu.Parsed) {
	more := f.Expect.More
	var m gpu.MIG
	if got.MIG != nil {
		m = *got.MIG
	}
	compareAs(p, more.given["gi_profiles"], "gi_profiles", more.GIProfiles, m.Profiles)
	compareAs(p, more.given["gpu_instances"], "gpu_instances", more.GPUInstances, m.GIs)
	compareAs(p, more.given["placements"], "placements", more.Placements, m.Placements)
	compareAs(p, more.given["mig_result"], "mig_result", more.MIGResult, m.Result)
	if want, err := decode[*gpu.MIGModeChange](more.MIGModeChange); err != nil {
		p.add("mig_mode_change: %v", err)
	} else if want != nil {
		want.BusID = text.BusID(want.BusID)
		compareAs(p, true, "mig_mode_change", want, m.ModeChange)
	}
	compareAs(p, more.given["mps"], "mps", more.MPS, got.MPS)
	for i, d := range f.Expect.Devices {
		if !d.given["mig_devices"] || i >= len(got.GPUs) {
			continue
		}
		var mine []gpu.MIGDevice
		for _, dev := range m.Devices {
			if same(dev.GPU, got.GPUs[i].Index) {
				dev.GPU = nil
				mine = append(mine, dev)
			}
		}
		compareMIGDevices(p, d.MIGDevices, mine)
	}
}

// compareMIGDevices compares in MiB, as the expectation counts.
func compareMIGDevices(p *problems, want any, got []gpu.MIGDevice) {
	rows, err := decode[[]struct {
		gpu.MIGDevice
		TotalMiB *int64 `json:"memory_total_mib"`
		UsedMiB  *int64 `json:"memory_used_mib"`
	}](want)
	if err != nil {
		p.add("mig_devices: %v", err)
		return
	}
	devices := make([]gpu.MIGDevice, 0, len(rows))
	for _, r := range rows {
		d := r.MIGDevice
		if r.TotalMiB != nil {
			d.MemoryTotal = new(*r.TotalMiB << 20)
		}
		if r.UsedMiB != nil {
			d.MemoryUsed = new(*r.UsedMiB << 20)
		}
		devices = append(devices, d)
	}
	if diff := cmp.Diff(devices, got, cmpopts.EquateEmpty()); diff != "" {
		p.add("mig_devices (-want +got):\n%s", diff)
	}
}

// compareAs decodes the expectation as the parse's type and compares.
func compareAs[T any](p *problems, given bool, key string, want any, got T) {
	if !given {
		return
	}
	w, err := decode[T](want)
	if err != nil {
		p.add("%s: %v", key, err)
		return
	}
	if diff := cmp.Diff(w, got, cmpopts.EquateEmpty()); diff != "" {
		p.add("%s (-want +got):\n%s", key, diff)
	}
}

// kernel compares what a kernel log excerpt says.
func (f File) kernel(p *problems, got gpu.Parsed) {
	want := f.Expect.More.KernelEvent
	if want == nil {
		return
	}
	type blame struct {
		Bus  string
		Code int
	}
	have, kinds := map[blame]bool{}, map[string]bool{}
	for _, e := range got.Events {
		kinds[e.Kind] = true
		for _, bus := range e.BusIDs {
			code := -1
			if e.Code != nil {
				code = *e.Code
			}
			have[blame{text.BusID(bus), code}] = true
		}
	}
	if !kinds[want.Kind] {
		p.add("no kernel event of kind %s", want.Kind)
	}
	for _, bus := range want.BusIDs {
		code := -1
		if want.Code != nil {
			code = *want.Code
		}
		if !have[blame{text.BusID(bus), code}] {
			p.add("no kernel event for %s", bus)
		}
	}
	for _, e := range want.Events {
		if !have[blame{text.BusID(e.Bus), e.Code}] {
			p.add("no kernel event %d for %s", e.Code, e.Bus)
		}
	}
}
