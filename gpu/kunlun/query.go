package kunlun

import (
	"cmp"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var queryHeading = text.Lazy(`^\s*XPU ([0-9a-fA-F:.]+)\s*$`)

// queried is one card's part of -q: values by heading and key, "memory usage/total".
type queried struct {
	heading   string // the bus id, or the index
	values    map[string]string
	processes []gpu.Process
}

// parseQuery reads "-q", nested by indentation:
//
//	XPU 00000000:01:00.0
//	    Product Name                          : P800 PCIe
//	    Memory Usage
//	        Total                             : 98304 MiB
func parseQuery(lines []string) (gpu.Parsed, bool) {
	var all []*queried
	var path section
	driver := ""
	for _, line := range lines {
		if m := queryHeading.FindStringSubmatch(line); m != nil {
			all = append(all, &queried{heading: m[1], values: map[string]string{}})
			path = nil
			continue
		}
		key, value := path.enter(line)
		switch {
		case value == "":
		case len(all) > 0:
			all[len(all)-1].set(key, value)
		case key == "driver version":
			driver = text.String(value)
		}
	}
	cards := make([]*card, 0, len(all))
	for _, q := range all {
		c := q.card()
		c.device.DriverVersion = driver
		cards = append(cards, c)
	}
	p := result(cards)
	for i, q := range all {
		for _, process := range q.processes {
			if process.Index = cards[i].device.Index; process.Index != nil {
				p.Processes = append(p.Processes, process)
			}
		}
	}
	return p, len(all) > 0
}

// section is the headings above a line, each with its indentation.
type section []heading

type heading struct {
	indent int
	name   string
}

// maxDepth bounds the nesting that is followed; the tool's own is four.
const maxDepth = 8

// enter returns the key of a line, below its nearest heading, and its value. A
// line without a value is a heading.
func (s *section) enter(line string) (key, value string) {
	name := strings.TrimSpace(line)
	if name == "" || text.Rule(line) {
		return "", ""
	}
	indent := len(line) - len(strings.TrimLeft(line, " \t"))
	if k, v, ok := text.KeyValue(line); ok {
		name, value = k, v
	}
	for len(*s) > 0 && (*s)[len(*s)-1].indent >= indent {
		*s = (*s)[:len(*s)-1]
	}
	key = strings.ToLower(strings.Join(strings.Fields(name), " "))
	if value == "" {
		if len(*s) < maxDepth {
			*s = append(*s, heading{indent, key})
		}
		return key, ""
	}
	if len(*s) > 0 {
		key = (*s)[len(*s)-1].name + "/" + key
	}
	return key, value
}

func (q *queried) set(key, value string) {
	if key, ok := strings.CutPrefix(key, "processes/"); ok {
		q.process(key, value)
		return
	}
	if _, twice := q.values[key]; !twice {
		q.values[key] = value
	}
}

func (q *queried) process(key, value string) {
	if key == "process id" {
		if pid := number(value); pid != nil {
			q.processes = append(q.processes, gpu.Process{PID: *pid})
		}
		return
	}
	if len(q.processes) == 0 {
		return
	}
	last := &q.processes[len(q.processes)-1]
	switch {
	case key == "name", key == "process name":
		last.Name = text.String(value)
	case strings.HasPrefix(key, "used ") && strings.HasSuffix(key, " memory"):
		last.MemoryUsed = text.Bytes(value, "")
	}
}

func (q *queried) card() *card {
	v := func(key string) string { return text.String(q.values[key]) }
	c := &card{number: number(v("minor number"))}
	if c.number == nil {
		c.number = number(q.heading)
	}
	d, s := &c.device, &c.stats
	d.Model, d.Serial, d.UUID = v("product name"), v("serial number"), v("xpu uuid")
	d.FirmwareVersion = v("firmware version/all version")
	d.BusID = cmp.Or(text.BusID(v("pci/bus id")), text.BusID(q.heading))
	d.MemoryTotal = positive(text.Bytes(v("memory usage/total"), ""))
	s.MemoryUsed = text.Bytes(v("memory usage/used"), "")
	s.Utilization = text.Percent(v("utilization/xpu"))
	s.Temperature = text.Celsius(v("temperature/xpu current temp"))
	s.Power = text.Watts(v("power readings/power draw"))
	s.PowerLimit = text.Watts(cmp.Or(v("power readings/enforced power limit"), v("power readings/power limit")))
	return c
}
