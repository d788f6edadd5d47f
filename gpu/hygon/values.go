package hygon

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// cardValues are details of a card that decide between values of one output.
type cardValues struct {
	sensor   int    // rank of the sensor that the temperature is of; 0: none yet
	failure  string // code, when the card is said to be ill
	topology bool   // the output told where the card sits, and
	other    bool   // something else, too
	numa     *int
}

// sensors in the order of preference: "edge" is the general one. That of the
// memory is never the card's temperature.
var sensors = []string{"edge", "junction", "core"}

var (
	sensorKey = text.Lazy(`^temperature \(sensor (\w+)\)`)
	useKey    = text.Lazy(`^(?:hcu|dcu|gpu) use \(%\)$`)
	utilKey   = text.Lazy(`^(?:hcu|dcu|gpu) util in last second$`)
	memoryKey = text.Lazy(`^vram total (used )?memory \((\w+)\)$`)
	powerKey  = text.Lazy(`^(max )?(?:average |current )?(?:socket )?graphics package power \((m?w)\)$`)
)

// set takes in one value of the "HCU[n]" lines, JSON or CSV, which share their
// keys; they differ in case between versions.
func (c *card) set(key, value string) {
	key = strings.ToLower(strings.Join(strings.Fields(key), " "))
	if strings.HasPrefix(key, "(topology) ") {
		c.topology = true
		if n := text.Int(value); key == "(topology) numa node" && n != nil && *n >= 0 {
			c.numa, c.device.NUMANode = n, n
		}
		return
	}
	c.other = true
	switch key {
	case "card series":
		c.device.Model = text.String(value)
	case "serial number":
		c.device.Serial = text.String(value)
	case "unique id":
		c.device.UUID = text.String(value)
	case "driver version":
		c.device.DriverVersion = text.String(value)
	case "vbios version":
		c.device.FirmwareVersion = text.String(value)
	case "pci bus": // "0000:09:00.0 --> SN: … --> OAM ID: 1"
		bus, _, _ := strings.Cut(value, " ")
		c.device.BusID = text.BusID(bus)
	case "bus id": // of --healthcheck: "0000:09:00.0 : Healthy"
		bus, word, _ := strings.Cut(value, " ")
		c.device.BusID = text.BusID(bus)
		c.health(strings.Trim(word, ": \t"))
	default:
		c.measure(key, value)
	}
}

func (c *card) measure(key, value string) {
	if m := sensorKey.FindStringSubmatch(key); m != nil {
		c.temperature(m[1], value)
		return
	}
	if m := memoryKey.FindStringSubmatch(key); m != nil {
		if m[1] == "" {
			c.device.MemoryTotal = positive(text.Bytes(value, m[2]))
		} else {
			c.stats.MemoryUsed = text.Bytes(value, m[2])
		}
		return
	}
	if m := powerKey.FindStringSubmatch(key); m != nil {
		if _, unit, ok := text.Number(value); ok && unit == "" {
			value = strings.TrimSpace(value) + strings.Replace(m[2], "w", "W", 1)
		}
		if watts := text.Watts(value); m[1] == "" {
			c.stats.Power = watts
		} else {
			c.stats.PowerLimit = watts
		}
		return
	}
	switch {
	case useKey.MatchString(key):
		c.stats.Utilization = text.Percent(value)
	case utilKey.MatchString(key) && c.stats.Utilization == nil: // of --showhcuutil
		c.stats.Utilization = text.Percent(value)
	}
}

// temperature keeps the one of the preferred sensor.
func (c *card) temperature(sensor, value string) {
	t := text.Celsius(value)
	for i, name := range sensors {
		if rank := len(sensors) - i; t != nil && sensor == name && rank > c.sensor {
			c.stats.Temperature, c.sensor = t, rank
		}
	}
}

// health takes in a word, which an explanation may follow: "Warning : …".
func (c *card) health(words string) {
	word, _, _ := strings.Cut(words, " ")
	switch strings.ToLower(word) {
	case "":
	case "healthy":
		c.stats.Health = gpu.HealthOK
	case "warning", "degraded":
		c.stats.Health, c.stats.HealthMessage = gpu.HealthWarning, words
	case "unhealthy", "failed", "error", "fault", "abnormal", "critical":
		c.stats.Health, c.stats.HealthMessage, c.failure = gpu.HealthFailed, words, codeUnhealthy
	default:
		c.stats.HealthMessage = words
	}
}

// positive drops a total of 0, which no card has.
func positive(n *int64) *int64 {
	if n != nil && *n == 0 {
		return nil
	}
	return n
}
