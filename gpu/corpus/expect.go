package corpus

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Expect is the right parse of a recording. A value that is null must be absent
// from the parse; a key that is not there is not compared.
type Expect struct {
	Devices        []Device        `yaml:"devices"`
	Failures       []Failure       `yaml:"failures"`
	CollectorError *CollectorError `yaml:"collector_error"`
	More           More            `yaml:"more"`
}

// Device is one expected device. Sizes are MiB.
type Device struct {
	Index       *int     `yaml:"index"`
	Card        *int     `yaml:"card"`
	Chip        *int     `yaml:"chip"`
	Minor       *int     `yaml:"minor"`
	PhyID       *int     `yaml:"phy_id"`
	UUID        *string  `yaml:"uuid"`
	BusID       *string  `yaml:"bus_id"`
	Model       *string  `yaml:"model"`
	Serial      *string  `yaml:"serial"`
	Firmware    *string  `yaml:"firmware"`
	MemoryTotal *float64 `yaml:"memory_total_mib"`
	MemoryUsed  *float64 `yaml:"memory_used_mib"`
	Utilization *float64 `yaml:"utilization_percent"`
	Temperature *float64 `yaml:"temperature_celsius"`
	Power       *float64 `yaml:"power_watts"`
	PowerLimit  *float64 `yaml:"power_limit_watts"`
	Health      *string  `yaml:"health"`
	MIGMode     *string  `yaml:"mig_mode"`
	MIGDevices  []any    `yaml:"mig_devices"`

	given map[string]bool
}

// UnmarshalYAML also notes which keys are there: null and absent differ.
func (d *Device) UnmarshalYAML(node *yaml.Node) error {
	type plain Device
	if err := node.Decode((*plain)(d)); err != nil {
		return err
	}
	d.given = keys(node)
	return nil
}

// Failure is one expected failure of a card, by index or by card and chip.
type Failure struct {
	Index *int    `yaml:"index"`
	Card  *int    `yaml:"card"`
	Chip  *int    `yaml:"chip"`
	BusID *string `yaml:"bus_id"`
	Class string  `yaml:"class"`
	Text  string  `yaml:"text"`

	given map[string]bool
}

// UnmarshalYAML is as for Device.
func (f *Failure) UnmarshalYAML(node *yaml.Node) error {
	type plain Failure
	if err := node.Decode((*plain)(f)); err != nil {
		return err
	}
	f.given = keys(node)
	return nil
}

// CollectorError is given as one string, which is a paraphrase, or as class and
// text, which are compared.
type CollectorError struct {
	Class string `yaml:"class"`
	Text  string `yaml:"text"`
}

// UnmarshalYAML accepts both forms.
func (c *CollectorError) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		return nil
	}
	type plain CollectorError
	return node.Decode((*plain)(c))
}

// More is what else an output says. Keys that have no place in gpu.Parsed
// (vNPU templates, partitions, board power) are not compared.
type More struct {
	DriverVersion *string        `yaml:"driver_version"`
	Processes     []Process      `yaml:"processes"`
	Topology      any            `yaml:"topology"`
	Groups        [][]int        `yaml:"groups"`
	IntraGroup    string         `yaml:"intra_group"`
	InterGroup    string         `yaml:"inter_group"`
	NUMANode      map[string]int `yaml:"numa_node"`
	CPUAffinity   map[string]any `yaml:"cpu_affinity"`
	GIProfiles    any            `yaml:"gi_profiles"`
	GPUInstances  any            `yaml:"gpu_instances"`
	Placements    any            `yaml:"placements"`
	MIGResult     any            `yaml:"mig_result"`
	MIGModeChange any            `yaml:"mig_mode_change"`
	MPS           any            `yaml:"mps"`
	KernelEvent   *KernelEvent   `yaml:"kernel_event"`

	given map[string]bool
}

// UnmarshalYAML is as for Device.
func (m *More) UnmarshalYAML(node *yaml.Node) error {
	type plain More
	if err := node.Decode((*plain)(m)); err != nil {
		return err
	}
	m.given = keys(node)
	return nil
}

// Process is one expected row of a process table.
type Process struct {
	PID       int      `yaml:"pid"`
	Name      *string  `yaml:"name"`
	GPU       *int     `yaml:"gpu"`
	Card      *int     `yaml:"card"`
	Chip      *int     `yaml:"chip"`
	Cards     []int    `yaml:"cards"`
	UUID      *string  `yaml:"gpu_uuid"`
	MemoryMiB *float64 `yaml:"memory_mib"`
	UsedMiB   *float64 `yaml:"used_mib"`

	given map[string]bool
}

// UnmarshalYAML is as for Device.
func (p *Process) UnmarshalYAML(node *yaml.Node) error {
	type plain Process
	if err := node.Decode((*plain)(p)); err != nil {
		return err
	}
	p.given = keys(node)
	return nil
}

// KernelEvent is what a kernel log excerpt says.
type KernelEvent struct {
	Kind   string   `yaml:"kind"`
	Code   *int     `yaml:"code"`
	BusIDs []string `yaml:"bus_ids"`
	Events []struct {
		Bus  string `yaml:"bus"`
		Code int    `yaml:"code"`
	} `yaml:"events"`
}

func keys(node *yaml.Node) map[string]bool {
	given := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		given[node.Content[i].Value] = true
	}
	return given
}

// plain turns what yaml decodes into what encoding/json accepts: string keys.
func plain(v any) any {
	switch v := v.(type) {
	case map[any]any:
		m := map[string]any{}
		for k, x := range v {
			m[fmt.Sprint(k)] = plain(x)
		}
		return m
	case map[string]any:
		m := map[string]any{}
		for k, x := range v {
			m[k] = plain(x)
		}
		return m
	case []any:
		l := make([]any, len(v))
		for i, x := range v {
			l[i] = plain(x)
		}
		return l
	}
	return v
}
