package cambricon

import (
	"cmp"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var cardHeading = text.Lazy(`^\s*Card (\d{1,4})\s*:?\s*$`)

// infoCard is one card's part of "cnmon info": values by their path, e.g.
// "power/cap".
type infoCard struct {
	number    *int
	values    map[string]string
	processes []gpu.Process
}

// parseInfo reads "cnmon info", which is nested by indentation:
//
//	Card 0
//	    Product Name                   : MLU370-X4
//	    Temperature                    :
//	        Board                      : 64 C
//
// An excerpt without "Card 0" is one card.
func parseInfo(lines []string, _ *int) (gpu.Parsed, bool) {
	var infos []*infoCard
	var path section
	for _, line := range lines {
		if m := cardHeading.FindStringSubmatch(line); m != nil {
			infos = append(infos, &infoCard{number: number(m[1]), values: map[string]string{}})
			path = nil
			continue
		}
		key, value, ok := path.enter(line)
		if !ok || value == "" {
			continue
		}
		if infos == nil {
			infos = append(infos, &infoCard{values: map[string]string{}})
		}
		infos[len(infos)-1].set(key, value)
	}
	var cards []*card
	var processes []gpu.Process
	for _, c := range infos {
		if c.number == nil && !c.recognised() {
			continue
		}
		cards = append(cards, c.card())
		processes = append(processes, c.processes...)
	}
	p := result(cards)
	p.Processes = processes
	return p, len(cards) > 0
}

// section is the headings above a line, each with its indentation.
type section []heading

type heading struct {
	indent int
	name   string
}

// enter returns the path and value of a line. A line without a value is a
// heading of the lines below it that are indented more.
func (s *section) enter(line string) (key, value string, ok bool) {
	name := strings.TrimSpace(line)
	indent := len(line) - len(strings.TrimLeft(line, " \t"))
	if k, v, ok := text.KeyValue(line); ok {
		name, value = k, v
	} else if indent == 0 || text.Rule(line) || name == "" {
		return "", "", false
	}
	for len(*s) > 0 && (*s)[len(*s)-1].indent >= indent {
		*s = (*s)[:len(*s)-1]
	}
	name = strings.ToLower(strings.Join(strings.Fields(name), " "))
	for _, h := range *s {
		key += h.name + "/"
	}
	key += name
	if value == "" && len(*s) < maxDepth {
		*s = append(*s, heading{indent, name})
	}
	return key, value, true
}

// maxDepth bounds the nesting that is followed; cnmon's own is three.
const maxDepth = 8

// telling are keys by which an excerpt is recognised.
var telling = []string{"product name", "physical memory usage/total", "health state/device", "power/usage"}

func (c *infoCard) recognised() bool {
	for _, k := range telling {
		if c.values[k] != "" {
			return true
		}
	}
	return false
}

// set takes in one value; the first of a key stands, except of processes, of
// which there are several.
func (c *infoCard) set(key, value string) {
	if strings.HasPrefix(key, "processes/") {
		c.process(key[strings.LastIndex(key, "/")+1:], value)
		return
	}
	if _, twice := c.values[key]; !twice {
		c.values[key] = value
	}
}

func (c *infoCard) process(key, value string) {
	if key == "pid" {
		if pid := number(value); pid != nil {
			c.processes = append(c.processes, gpu.Process{PID: *pid, Index: c.number})
		}
		return
	}
	if len(c.processes) == 0 {
		return
	}
	last := &c.processes[len(c.processes)-1]
	switch key {
	case "cmdline":
		last.Name = text.String(value)
	case "mlu memory usage":
		last.MemoryUsed = text.Bytes(value, "")
	}
}

func (c *infoCard) card() *card {
	v := func(key string) string { return text.String(c.values[key]) }
	out := &card{number: c.number}
	d, s := &out.device, &out.stats
	d.Model, d.UUID = v("product name"), v("uuid")
	d.Serial = cmp.Or(v("serial number"), v("sn"))
	d.DriverVersion, d.FirmwareVersion = v("driver"), v("firmware")
	d.BusID = c.busID()
	d.MemoryTotal = positive(text.Bytes(v("physical memory usage/total"), ""))
	s.MemoryUsed = text.Bytes(v("physical memory usage/used"), "")
	s.Utilization = text.Percent(v("utilization/mlu average"))
	s.Temperature = text.Celsius(cmp.Or(v("temperature/chip"), v("temperature/board")))
	s.Power, s.PowerLimit = text.Watts(v("power/usage")), text.Watts(v("power/cap"))
	out.failure = healthOf(s, v("health state/device"), v("health state/driver"))
	return out
}

// busID puts the address together; its parts are hexadecimal, without "0x".
func (c *infoCard) busID() string {
	part := func(key string) string { return strings.TrimPrefix(c.values["pci/"+key], "0x") }
	return text.BusID(part("domain id") + ":" + part("bus num") + ":" + part("device") + "." + part("function"))
}

// healthOf sets what the device's and the driver's health words say, and returns
// the failure that they stand for.
func healthOf(s *gpu.Stats, device, driver string) *gpu.Failure {
	switch strings.ToLower(device) {
	case "":
	case "good":
		s.Health = gpu.HealthOK
	case "warning":
		s.Health, s.HealthMessage = gpu.HealthWarning, device
	case "bad", "fault", "error", "failed", "abnormal":
		s.Health, s.HealthMessage = gpu.HealthFailed, device
		return &gpu.Failure{Code: CodeUnhealthy, Message: "device health " + device}
	default:
		s.HealthMessage = device
	}
	if driver != "" && !strings.EqualFold(driver, "running") {
		s.Health, s.HealthMessage = gpu.HealthFailed, "driver "+driver
		return &gpu.Failure{Code: CodeDriverState, Message: "driver state " + driver}
	}
	return nil
}
