package smi

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// logFields are the paths of "-q", by headings and key, lower case, of drivers
// 304 to 610.
var logFields = map[string]field{
	"product name": fieldModel, "gpu uuid": fieldUUID, "serial number": fieldSerial,
	"minor number": fieldMinor, "vbios version": fieldVBIOS, "mig mode/current": fieldMIGMode,
	"fb memory usage/total": fieldMemoryTotal, "fb memory usage/used": fieldMemoryUsed,
	"memory usage/total": fieldMemoryTotal, "memory usage/used": fieldMemoryUsed,
	"utilization/gpu": fieldUtilization, "gpu recovery action": fieldAction,
	"gpu reset status/reset required": fieldReset,
	"temperature/gpu current temp":    fieldTemperature, "temperature/gpu": fieldTemperature,
	"power readings/power draw": fieldPower, "gpu power readings/power draw": fieldPower,
	"gpu power readings/instantaneous power draw":                    fieldPowerInstant,
	"gpu power readings/average power draw":                          fieldPowerAverage,
	"power readings/power limit":                                     fieldPowerLimit,
	"gpu power readings/current power limit":                         fieldPowerLimit,
	"gpu power readings/gpu ceiling power limit/current power limit": fieldPowerLimit,
	"power readings/enforced power limit":                            fieldPowerEnforced,
	"ecc errors/volatile/double bit/total":                           fieldECC,
	"ecc errors/volatile/sram uncorrectable":                         fieldECC,
	"ecc errors/volatile/sram uncorrectable parity":                  fieldECC,
	"ecc errors/volatile/sram uncorrectable sec-ded":                 fieldECC,
	"ecc errors/volatile/dram uncorrectable":                         fieldECC,
	"remapped rows/remapping failure occurred":                       fieldRemapFailure,
	"remapped rows/pending":                                          fieldRemapPending,
	"retired pages/pending page blacklist":                           fieldRemapPending,
}

var (
	logTitle = text.Lazy(`^=+\s*NVSMI LOG\s*=+`)
	logCard  = text.Lazy(`(?i)^\s*GPU\s+((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s*$`)
)

// section is a heading whose lines are indented deeper than indent.
type section struct {
	indent int
	name   string
}

// logReader is where reading "-q" has come to.
type logReader struct {
	*document
	current  *card
	sections []section
	driver   string
	instance *gpu.MIGDevice
	process  *gpu.Process
}

// readLog reads "-q" and "-q -d …".
func (d *document) readLog() bool {
	r := logReader{document: d}
	known := false
	for i, line := range d.lines {
		switch m := logCard.FindStringSubmatch(line); {
		case m != nil:
			r.flush()
			known = true
			r.current, r.sections = &card{line: i}, nil
			r.current.set(fieldBusID, m[1])
			d.sample(r.current)
		case logTitle.MatchString(line): // of a loop, the next sample
			r.flush()
			known, r.current, r.sections = true, nil, nil
		default:
			r.line(line)
		}
	}
	r.flush()
	d.ordinals()
	for _, c := range d.cards {
		if known {
			c.device.DriverVersion = r.driver
		}
	}
	return known
}

// sample adds a card, or puts it in the place of an older sample of a loop.
func (d *document) sample(c *card) {
	if at := slices.IndexFunc(d.cards, func(have *card) bool {
		return c.device.BusID != "" && have.device.BusID == c.device.BusID
	}); at >= 0 {
		d.cards[at] = c
		return
	}
	d.cards = append(d.cards, c)
}

// line reads a heading or a value.
func (r *logReader) line(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	key, value, isValue := text.KeyValue(strings.TrimSpace(line))
	if !isValue {
		key = strings.TrimSpace(line)
	}
	path := r.enter(len(line)-len(strings.TrimLeft(line, " \t")), strings.ToLower(key))
	switch {
	case r.current == nil:
		if (path == "driver version" || path == "kmd version") && !unread(value) {
			r.driver, _, _ = strings.Cut(value, " ")
		}
	case path == "mig device":
		r.flush()
		r.instance = &gpu.MIGDevice{}
	case strings.HasPrefix(path, "mig device/") && r.instance != nil:
		migValue(r.instance, strings.TrimPrefix(path, "mig device/"), value)
	case strings.HasPrefix(path, "processes/"):
		r.processValue(strings.TrimPrefix(path, "processes/"), value)
	case isValue:
		r.current.set(logFields[path], value)
	}
}

// enter keeps track of the headings around a line and returns its path.
func (r *logReader) enter(indent int, key string) string {
	for len(r.sections) > 0 && r.sections[len(r.sections)-1].indent >= indent {
		r.sections = r.sections[:len(r.sections)-1]
	}
	path := key
	for _, s := range slices.Backward(r.sections) {
		path = s.name + "/" + path
	}
	const deepest = 16 // of any driver: 4
	if len(r.sections) < deepest {
		r.sections = append(r.sections, section{indent, key})
	}
	return path
}

// flush ends the MIG device or process that is being read. The card's number is
// known only at the end, so both are kept with it until then.
func (r *logReader) flush() {
	if m := r.instance; m != nil && m.MIGIndex != nil {
		r.current.migs = append(r.current.migs, *m)
	}
	if p := r.process; p != nil && p.PID > 0 {
		r.current.processes = append(r.current.processes, *p)
	}
	r.instance, r.process = nil, nil
}

// migValue takes a value of one MIG device, by its path in "-q" or XML.
func migValue(m *gpu.MIGDevice, path, value string) {
	switch path {
	case "index":
		m.MIGIndex = text.Natural(value)
	case "gpu instance id", "gpu_instance_id":
		m.GI = text.Natural(value)
	case "compute instance id", "compute_instance_id":
		m.CI = text.Natural(value)
	case "device attributes/shared/multiprocessor count", "device_attributes/shared/multiprocessor_count":
		m.SM = text.Natural(value)
	case "fb memory usage/total", "fb_memory_usage/total":
		m.MemoryTotal = text.MiB(value)
	case "fb memory usage/used", "fb_memory_usage/used":
		m.MemoryUsed = text.MiB(value)
	}
}

func (r *logReader) processValue(path, value string) {
	if path == "process id" {
		r.flush()
		r.process = &gpu.Process{}
	}
	if r.process == nil || unread(value) {
		return
	}
	switch path {
	case "process id":
		if pid := text.Int(value); pid != nil {
			r.process.PID = *pid
		}
	case "process id/name":
		r.process.Name = value
	case "process id/used gpu memory":
		r.process.MemoryUsed = text.MiB(value)
	}
}

// ordinals numbers the cards of "-q", which lists them in the order of their
// indices without saying so. With -i it is the card asked for; where an error
// stands in a card's place the numbers are not known.
func (d *document) ordinals() {
	one, gone := selected(d.args), false
	for _, f := range d.failures {
		gone = gone || d.blamed(f) == nil
	}
	for i, c := range d.cards {
		switch {
		case one != nil && len(d.cards) == 1:
			c.device.Index = one
		case gone, picks(d.args):
			continue
		default:
			c.device.Index = new(i)
		}
		for _, m := range c.migs {
			m.GPU = c.device.Index
			d.addMIG(m)
		}
		for _, p := range c.processes {
			p.Index, p.UUID = c.device.Index, c.device.UUID
			d.parsed.Processes = append(d.parsed.Processes, p)
		}
	}
}
