package corpus

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// problems collects what differs.
type problems []string

func (p *problems) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

// Compare parses the recording and returns how the result differs from what is
// expected, one line a difference.
func (f File) Compare(parse gpu.ParseFunc) []string {
	got, err := f.Parse(parse)
	if err != nil {
		return []string{"error: " + err.Error()}
	}
	var p problems
	f.devices(&p, got)
	f.failures(&p, got)
	f.collectorError(&p, got)
	f.processes(&p, got)
	f.topology(&p, got)
	f.mig(&p, got)
	f.kernel(&p, got)
	return p
}

func (f File) devices(p *problems, got gpu.Parsed) {
	if len(got.GPUs) != len(f.Expect.Devices) {
		p.add("%d devices, want %d", len(got.GPUs), len(f.Expect.Devices))
		return
	}
	rows := map[int]gpu.Stats{} // device position → row
	for i, s := range got.Stats {
		at := position(got.GPUs, s, i)
		if _, taken := rows[at]; at < 0 || taken {
			p.add("gpu_stats[%d] belongs to no device, or to one that has a row", i)
			continue
		}
		rows[at] = s
	}
	for i, want := range f.Expect.Devices {
		var d problems
		want.compare(&d, got.GPUs[i], rows[i])
		if got.GPUs[i].Vendor != f.Vendor || got.GPUs[i].Type != f.Vendor {
			d.add("vendor %q, type %q", got.GPUs[i].Vendor, got.GPUs[i].Type)
		}
		for _, s := range d {
			p.add("device %d: %s", i, s)
		}
		if v := f.Expect.More.DriverVersion; v != nil && got.GPUs[i].DriverVersion != *v {
			p.add("device %d: driver_version %q, want %q", i, got.GPUs[i].DriverVersion, *v)
		}
	}
}

// position finds the device of a stats row: by uuid, by index, or, where the
// output names neither, by its place.
func position(devices []gpu.Device, s gpu.Stats, at int) int {
	for i, d := range devices {
		if s.UUID != "" && s.UUID == d.UUID && same(s.Index, d.Index) ||
			s.UUID == "" && s.Index != nil && same(s.Index, d.Index) {
			return i
		}
	}
	if s.UUID == "" && s.Index == nil && at < len(devices) {
		return at
	}
	return -1
}

func (d Device) compare(p *problems, got gpu.Device, s gpu.Stats) {
	str := func(key, got string, want *string) {
		if w := deref(want); d.given[key] && got != w {
			p.add("%s %q, want %q", key, got, w)
		}
	}
	num := func(key string, got, want *float64, tolerance float64) {
		if d.given[key] && !near(got, want, tolerance) {
			p.add("%s %s, want %s", key, show(got), show(want))
		}
	}
	whole := func(key string, got, want *int) {
		if d.given[key] && !same(got, want) {
			p.add("%s %s, want %s", key, show(got), show(want))
		}
	}
	whole("index", got.Index, d.Index)
	whole("card", got.Card, d.Card)
	whole("chip", got.Chip, d.Chip)
	whole("minor", got.Minor, d.Minor)
	whole("phy_id", got.Minor, d.PhyID)
	str("uuid", got.UUID, d.UUID)
	str("bus_id", text.BusID(got.BusID), new(text.BusID(deref(d.BusID))))
	str("model", got.Model, d.Model)
	str("serial", got.Serial, d.Serial)
	str("firmware", got.FirmwareVersion, d.Firmware)
	str("mig_mode", got.MIGMode, d.MIGMode)
	str("health", s.Health, health(d.Health))
	total := got.MemoryTotal
	if total == nil {
		total = s.MemoryTotal
	} else if s.MemoryTotal != nil && *s.MemoryTotal != *total {
		p.add("memory_total_bytes %d in gpus, %d in gpu_stats", *total, *s.MemoryTotal)
	}
	num("memory_total_mib", mib(total), d.MemoryTotal, 1)
	num("memory_used_mib", mib(s.MemoryUsed), d.MemoryUsed, 1)
	num("utilization_percent", s.Utilization, d.Utilization, 0.01)
	num("temperature_celsius", s.Temperature, d.Temperature, 0.01)
	num("power_watts", s.Power, d.Power, 0.01)
	num("power_limit_watts", s.PowerLimit, d.PowerLimit, 0.01)
}

// health maps the tools' words to the protocol's. A word that stands for none of
// them is compared as it is, so that it is noticed.
func health(word *string) *string {
	switch strings.ToLower(deref(word)) {
	case "ok", "good", "healthy":
		return new(gpu.HealthOK)
	case "warning", "degraded":
		return new(gpu.HealthWarning)
	case "alarm", "critical", "error", "reset_required", "failed":
		return new(gpu.HealthFailed)
	}
	return word
}

// failures compares without regard to order.
func (f File) failures(p *problems, got gpu.Parsed) {
	rest := got.Failures
	for _, want := range f.Expect.Failures {
		found := false
		for i, g := range rest {
			if f.sameFailure(want, g) {
				rest, found = append(rest[:i:i], rest[i+1:]...), true
				break
			}
		}
		if !found {
			p.add("no failure for %s", brief(want))
		}
	}
	for _, g := range rest {
		p.add("unexpected failure %s", brief(g))
	}
}

func (f File) sameFailure(want Failure, got gpu.Failure) bool {
	index := want.Index
	if want.given["card"] {
		index = f.index(want.Card, want.Chip)
	}
	switch {
	case (want.given["index"] || want.given["card"]) && !same(got.Index, index),
		want.given["bus_id"] && text.BusID(got.BusID) != text.BusID(deref(want.BusID)),
		want.Class != "" && got.Code != want.Class,
		got.Code == "", got.Message == "":
		return false
	}
	return want.Text == "" || contains(got.Message, want.Text)
}

// index finds the device of a board and chip; without such a device the board's
// number is the index.
func (f File) index(card, chip *int) *int {
	for _, d := range f.Expect.Devices {
		if same(d.Card, card) && (chip == nil || same(d.Chip, chip)) {
			return d.Index
		}
	}
	return card
}

func (f File) collectorError(p *problems, got gpu.Parsed) {
	want := f.Expect.CollectorError
	switch {
	case want == nil && got.CollectorError != nil:
		p.add("unexpected collector error %q", got.CollectorError)
	case want == nil:
	case got.CollectorError == nil:
		p.add("no collector error")
	case want.Class != "" && got.CollectorError.Code != want.Class:
		p.add("collector error %q, want class %s", got.CollectorError, want.Class)
	case got.CollectorError.Message == "", !contains(got.CollectorError.Message, want.Text):
		p.add("collector error %q, want %q", got.CollectorError, want.Text)
	}
}

func (f File) processes(p *problems, got gpu.Parsed) {
	if !f.Expect.More.given["processes"] {
		return
	}
	want := make([]gpu.Process, 0, len(f.Expect.More.Processes))
	for i, w := range f.Expect.More.Processes {
		g := gpu.Process{}
		if i < len(got.Processes) {
			g = got.Processes[i]
		}
		f.expect(w, &g)
		want = append(want, g)
	}
	if diff := cmp.Diff(want, got.Processes, cmpopts.EquateEmpty()); diff != "" {
		p.add("processes (-want +got):\n%s", diff)
	}
}

// expect puts what is expected of a process into g; a key that is not there is
// left as it is.
func (f File) expect(w Process, g *gpu.Process) {
	g.PID = w.PID
	if w.given["name"] {
		g.Name = deref(w.Name)
	}
	if w.given["gpu_uuid"] {
		g.UUID = deref(w.UUID)
	}
	switch {
	case w.given["card"]:
		g.Index, g.Indexes = f.index(w.Card, w.Chip), nil
	case len(w.Cards) == 1:
		g.Index, g.Indexes = &w.Cards[0], nil
	case w.given["cards"]:
		g.Index, g.Indexes = nil, w.Cards
	case w.given["gpu"]:
		g.Index = w.GPU
	}
	if w.given["memory_mib"] || w.given["used_mib"] {
		g.MemoryUsed = nil
	}
	for _, m := range []*float64{w.MemoryMiB, w.UsedMiB} {
		if m != nil {
			g.MemoryUsed = new(int64(*m * (1 << 20)))
		}
	}
}

// decode turns a part of the expectation into the type of the parse, whose JSON
// keys are the same.
func decode[T any](v any) (T, error) {
	var t T
	raw, err := json.Marshal(plain(v))
	if err != nil {
		return t, err
	}
	return t, json.Unmarshal(raw, &t)
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func same(a, b *int) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

func near(a, b *float64, tolerance float64) bool {
	return a == nil && b == nil || a != nil && b != nil && math.Abs(*a-*b) <= tolerance
}

func mib(bytes *int64) *float64 {
	if bytes == nil {
		return nil
	}
	return new(float64(*bytes) / (1 << 20))
}

func show[T any](v *T) string {
	if v == nil {
		return "absent"
	}
	return fmt.Sprint(*v)
}

func brief(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// contains compares words without regard to white space.
func contains(s, part string) bool {
	return strings.Contains(strings.Join(strings.Fields(s), " "), strings.Join(strings.Fields(part), " "))
}
