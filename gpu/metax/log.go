package metax

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var (
	cardHead = text.Lazy(`^\s*GPU#(\d{1,4})\s+(\S.*?)\s*$`)
	// "GPU 0: MXC500 (UUID: GPU-…)"
	listRow = text.Lazy(`^\s*GPU\s+(\d{1,4})\s*:\s*(.*?\(UUID\s*:.*)$`)
	uuid    = text.Lazy(`\(UUID\s*:\s*([^)\s]*)\s*\)`)
	address = text.Lazy(`(?:^|\s)((?:[0-9a-fA-F]{4,8}:)[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])(?:\s|$)`)
	failing = text.Lazy(`(?i)\b(?:error|failed|fail)\b`)
)

// parseLog reads the output of -L and of any --show options: a heading for each
// card, below it sections and values, told apart by indentation.
//
//	GPU#0  MXC500  0000:37:00.0
//	    Board Power
//	        Total                                     :  62.015 W
//
// The list's partitions ("SGPU#3 …") are no cards.
func parseLog(_ []byte, lines []string) (gpu.Parsed, bool) {
	var found cards
	var current *card
	var above text.Sections
	var processes []gpu.Process
	known := false
	for i, line := range lines {
		m := cardHead.FindStringSubmatch(line)
		if m == nil {
			m = listRow.FindStringSubmatch(line)
		}
		if m != nil {
			if n := text.Natural(m[1]); n != nil {
				current, above = found.at(*n), nil
				current.heading(m[2])
			}
			continue
		}
		section := above.Place(line)
		key, value, ok := text.KeyValue(line)
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "SGPU#"):
			current = nil
		case isProcessTitle(strings.Trim(line, "| ")):
			processes, known, current = readProcesses(lines[i:]), true, nil
		case !ok:
			above.Open(line)
		case current != nil:
			current.set(section, key, value)
		}
	}
	p := found.parsed()
	p.Processes = processes
	return p, known || len(found) > 0
}

// heading takes in what follows "GPU#0": name, address, state and uuid, as far
// as they are there, or what went wrong with one value of the card.
func (c *card) heading(rest string) {
	if m := uuid.FindStringSubmatch(rest); m != nil {
		c.device.UUID = text.String(m[1])
		rest = strings.TrimSpace(strings.Replace(rest, m[0], "", 1))
	}
	if m := address.FindStringSubmatchIndex(rest); m != nil {
		c.device.Model = text.String(rest[:m[0]])
		c.device.BusID = text.BusID(rest[m[2]:m[3]])
		c.state(rest[m[3]:])
		return
	}
	if failing.MatchString(rest) { // one unreadable value is no dead card
		c.stats.HealthMessage = rest
		return
	}
	if name, state, ok := strings.Cut(rest, "  "); ok {
		c.device.Model = text.String(name)
		c.state(state)
		return
	}
	c.device.Model = text.String(rest)
}
