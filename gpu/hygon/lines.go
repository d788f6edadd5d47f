package hygon

import (
	"slices"
	"strconv"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

var (
	cardLine = text.Lazy(`^\s*(?:HCU|DCU|GPU)\[(\d{1,4})\]\s*:\s*(\S.*)$`)
	cardName = text.Lazy(`^card(\d{1,4})$`)
	numaLine = text.Lazy(`^(\(Topology\) Numa \w+)\s+(-?\d+)$`) // some versions print no colon there
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
		key, value, pair := text.KeyValue(m[2])
		if n := numaLine.FindStringSubmatch(m[2]); n != nil {
			key, value, pair = n[1], n[2], true
		}
		switch {
		case isError(m[2]):
		case pair:
			found.at(number(m[1])).set(key, value)
		default: // "HCU[0]: RAS INFO", above a table of its own
			found.at(number(m[1])).other = true
		}
	}
	t := topologyOf(found, lines)
	if len(found) == 0 && t == nil {
		return gpu.Parsed{}, false
	}
	p := listed(found)
	p.Topology = t
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
