package cambricon

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// cardHeading begins a card's part: "Card 0", in "cnmon -l" with more behind it.
var (
	cardHeading = text.Lazy(`^\s*Card (\d{1,4})\s*(?::\s*(.*))?$`)
	listedModel = text.Lazy(`^MLU\S+`)
	listedUUID  = text.Lazy(`\bUUID\s*:\s*([0-9A-Za-z-]+)`)
)

// infoCard is one card's part of "cnmon info": values by their path without
// blanks, e.g. "power/cap".
type infoCard struct {
	number    *int
	values    map[string]string
	processes []gpu.Process
}

// parseInfo reads "cnmon info", which is nested by indentation, and "cnmon -l":
//
//	Card 0
//	    Product Name                   : MLU370-X4
//	    Temperature                    :
//	        Board                      : 64 C
//
// An excerpt without "Card 0" is one card: the one that was asked for, if one was.
func parseInfo(lines []string, asked *int) (gpu.Parsed, bool) {
	var infos []*infoCard
	var path section
	for _, line := range lines {
		if m := cardHeading.FindStringSubmatch(line); m != nil && !errorWord.MatchString(m[2]) {
			infos = append(infos, newInfoCard(number(m[1])))
			infos[len(infos)-1].listed(m[2])
			path = nil
			continue
		}
		key, value, ok := path.enter(line)
		if !ok || value == "" {
			continue
		}
		if infos == nil {
			infos = append(infos, newInfoCard(nil))
		}
		infos[len(infos)-1].set(key, value)
	}
	if len(infos) == 1 && infos[0].number == nil && infos[0].recognised() {
		infos[0].number = asked
	}
	return cardsOf(infos)
}

func newInfoCard(number *int) *infoCard {
	return &infoCard{number: number, values: map[string]string{}}
}

// cardsOf puts together what is known of the cards.
func cardsOf(infos []*infoCard) (gpu.Parsed, bool) {
	var cards []*card
	var processes []gpu.Process
	for _, c := range infos {
		if c.number == nil && !c.recognised() {
			continue
		}
		cards = append(cards, c.card())
		for _, process := range c.processes {
			process.Index = c.number
			processes = append(processes, process)
		}
	}
	p := result(cards)
	p.Processes = processes
	return p, len(cards) > 0
}

// listed takes in what "cnmon -l" prints of a card beside its number.
func (c *infoCard) listed(rest string) {
	if model := listedModel.FindString(rest); model != "" {
		c.set("productname", model)
	}
	if m := listedUUID.FindStringSubmatch(rest); m != nil {
		c.set("uuid", m[1])
	}
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
	name = pathName(name)
	for _, h := range *s {
		key += h.name + "/"
	}
	key += name
	if value == "" && len(*s) < maxDepth {
		*s = append(*s, heading{indent, name})
	}
	return key, value, true
}

// pathName is a key without what versions and formats differ in.
func pathName(key string) string {
	return strings.ToLower(strings.Join(strings.Fields(key), ""))
}

// maxDepth bounds the nesting that is followed; cnmon's own is three.
const maxDepth = 8

// telling are keys by which an excerpt is recognised.
var telling = []string{"productname", "physicalmemoryusage/total", "healthstate/device", "power/usage"}

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
			c.processes = append(c.processes, gpu.Process{PID: *pid})
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
	case "mlumemoryusage":
		last.MemoryUsed = text.Bytes(value, "")
	}
}

// value returns the first of the keys that has one; text and JSON name some
// differently.
func (c *infoCard) value(keys ...string) string {
	for _, key := range keys {
		if v := text.String(c.values[key]); v != "" {
			return v
		}
	}
	return ""
}

func (c *infoCard) card() *card {
	v := c.value
	out := &card{number: c.number}
	d, s := &out.device, &out.stats
	d.Model, d.UUID = v("productname"), v("uuid")
	d.Serial = v("serialnumber", "sn")
	d.DriverVersion, d.FirmwareVersion = v("driver", "driverversion"), v("firmware", "firmwareversion")
	d.BusID = c.busID()
	d.MemoryTotal = positive(text.MiB(v("physicalmemoryusage/total", "physicalmemusage/total")))
	s.MemoryUsed = text.MiB(v("physicalmemoryusage/used", "physicalmemusage/used"))
	s.Utilization = text.Percent(v("utilization/mluaverage"))
	s.Temperature = text.Celsius(v("temperature/chip", "temperature/board"))
	s.Power, s.PowerLimit = text.Watts(v("power/usage")), text.Watts(v("power/cap"))
	out.failure = healthOf(s, v("healthstate/device"), v("healthstate/driver"))
	return out
}

// busID puts the address together; its parts are hexadecimal, without "0x".
func (c *infoCard) busID() string {
	part := func(keys ...string) string { return strings.TrimPrefix(c.value(keys...), "0x") }
	return text.BusID(part("pci/domainid") + ":" + part("pci/busnum", "pci/bus") + ":" +
		part("pci/device") + "." + part("pci/function"))
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
