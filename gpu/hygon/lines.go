package hygon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var (
	cardLine = text.Lazy(`^\s*(?:HCU|DCU|GPU)\[(\d{1,4})\]\s*:\s*(.*)$`)
	cardName = text.Lazy(`^card(\d{1,4})$`)
)

// parseLines reads what most options print, "HCU[0] : Card Series: K100_AI", and
// the matrices of --showtopo between such lines.
func parseLines(_ []byte, lines []string) (gpu.Parsed, bool) {
	found := cards{}
	for _, line := range lines {
		m := cardLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if key, value, ok := text.KeyValue(m[2]); ok && !isError(m[2]) {
			found.at(number(m[1])).set(key, value)
		}
	}
	t := topologyOf(found, lines)
	if len(found) == 0 && t == nil {
		return gpu.Parsed{}, false
	}
	p := listed(found)
	p.Topology = t
	p.Failures = append(p.Failures, cardErrors(lines, found)...)
	return p, true
}

// listed leaves out the cards of which only the topology was told: a matrix is
// no list of cards.
func listed(found cards) gpu.Parsed {
	for n, c := range found {
		if c.topology && !c.other {
			delete(found, n)
		}
	}
	return found.parsed()
}

// parseJSON reads {"card0": {"Key": "value", …}, …}, which may follow other
// lines. A cut text is read up to the last whole card.
func parseJSON(output []byte, _ []string) (gpu.Parsed, bool) {
	start := bytes.IndexByte(output, '{')
	if start < 0 {
		return gpu.Parsed{}, false
	}
	found := cards{}
	var system map[string]any
	dec := json.NewDecoder(bytes.NewReader(output[start:]))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil {
		return gpu.Parsed{}, false
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			break
		}
		var values map[string]any
		if err := dec.Decode(&values); err != nil {
			break
		}
		if name == "system" {
			system = values
		}
		if m := cardName.FindStringSubmatch(fmt.Sprint(name)); m != nil {
			found.at(number(m[1])).setAll(values)
		}
	}
	if len(found) == 0 && system == nil {
		return gpu.Parsed{}, false
	}
	for _, c := range found {
		if v, ok := system["Driver version"].(string); ok {
			c.device.DriverVersion = text.String(v)
		}
	}
	t := topologyOf(found, nil)
	p := listed(found)
	p.Topology = t
	return p, true
}

func (c *card) setAll(values map[string]any) {
	for key, v := range values {
		switch v := v.(type) {
		case string:
			c.set(key, v)
		case json.Number:
			c.set(key, v.String())
		}
	}
}

// parseCSV reads --csv. The vendor's name has a comma, and no quotes around it:
// a row that has more fields than the header has them there.
func parseCSV(_ []byte, lines []string) (gpu.Parsed, bool) {
	found := cards{}
	var header []string
	for _, line := range lines {
		fields := strings.Split(line, ",")
		if strings.TrimSpace(fields[0]) == "device" && len(fields) > 1 {
			header = fields
			continue
		}
		m := cardName.FindStringSubmatch(strings.TrimSpace(fields[0]))
		if header == nil || m == nil {
			continue
		}
		if vendor, extra := slices.Index(header, "Card Vendor"), len(fields)-len(header); extra > 0 && vendor >= 0 {
			fields = slices.Delete(slices.Clone(fields), vendor+1, vendor+1+extra)
		}
		if len(fields) > len(header) {
			continue // a comma elsewhere: no telling which value is which
		}
		c := found.at(number(m[1]))
		for i := 1; i < len(fields); i++ {
			c.set(header[i], fields[i])
		}
	}
	return found.parsed(), len(found) > 0
}

// number converts digits that an expression of this file has matched.
func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}
