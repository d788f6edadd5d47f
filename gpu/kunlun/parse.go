package kunlun

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// forms are the forms of output, in the order in which they are tried. Each
// returns false for text that is not of its form.
var forms = []func(lines []string) (gpu.Parsed, bool){
	parseTable,
	parseOldTable,
	parseQuery,
	parseMachine,
	parseList,
	parseTopology,
	parseValues,
	parseNone,
	parseError,
}

var errIntel = errors.New("this is Intel's xpu-smi, not Kunlunxin's")

// Parse says what an output of xpu_smi means, whichever of its forms it is.
// Arguments and exit status are not looked at: the content tells the forms apart.
func Parse(_ []string, _ int, output []byte) (gpu.Parsed, error) {
	if isIntel(output) {
		return gpu.Parsed{}, errIntel
	}
	lines := text.Lines(output)
	for _, form := range forms {
		if p, ok := form(lines); ok {
			p.Failures = append(p.Failures, cardErrors(lines, p.GPUs)...)
			return p, nil
		}
	}
	return gpu.Parsed{}, errors.New("not a known form of xpu_smi's output")
}

// isIntel reports whether the other tool of this name printed the output.
func isIntel(output []byte) bool {
	return bytes.Contains(output, []byte("Intel(R)")) || bytes.Contains(output, []byte("Level Zero"))
}

var kunlunWord = text.Lazy(`XPU-RT Version|XPUSMI|(?i:kunlun)|\bDevID\b|/dev/xpu\d`)

// isKunlun reports whether an output shows whose tool it is.
func isKunlun(output []byte) bool { return !isIntel(output) && kunlunWord.Match(output) }

// card is what an output says of one device.
type card struct {
	number *int   // nil where the text does not say
	place  string // of the chip on its board, where the text says it
	device gpu.Device
	stats  gpu.Stats
	failed string // why the device is a failed one,
	code   string // and the code of it
}

// result puts the devices together, one that is printed again (in a loop) once.
// Where the text numbers none of them, or two alike, a device's place is its
// index. That is then each card's device.Index.
func result(all []*card) gpu.Parsed {
	unique, seen := true, map[int]bool{}
	chips, onBoard := map[string]int{}, map[string]int{}
	cards := distinct(all)
	for _, c := range cards {
		unique = unique && c.number != nil && !seen[*c.number]
		if c.number != nil {
			seen[*c.number] = true
		}
		chips[c.device.BusID]++
	}
	var p gpu.Parsed
	for i, c := range cards {
		c.device.Index = new(i)
		if unique {
			c.device.Index = c.number
			if c.device.Minor == nil {
				c.device.Minor = c.number
			}
		}
		d, s := c.device, c.stats
		d.Vendor, d.Type, d.Card = gpu.Kunlun, gpu.Kunlun, d.Index
		if bus := d.BusID; bus != "" && chips[bus] > 1 { // the chips of a K200
			d.Chip = new(onBoard[bus])
			onBoard[bus]++
		}
		p.GPUs = append(p.GPUs, d)
		if s != (gpu.Stats{}) || d.MemoryTotal != nil {
			s.Index, s.UUID, s.MemoryTotal = d.Index, d.UUID, d.MemoryTotal
			p.Stats = append(p.Stats, s)
		}
		if c.failed != "" {
			p.Failures = append(p.Failures, gpu.Failure{
				Index: d.Index, UUID: d.UUID, BusID: d.BusID, Code: c.code, Message: c.failed,
			})
		}
	}
	return p
}

// distinct leaves out a device that was there before: the same number, on the same
// place of the same board.
func distinct(all []*card) []*card {
	var out []*card
	seen := map[string]bool{}
	for _, c := range all {
		if c.number != nil {
			key := fmt.Sprint(*c.number, c.place, c.device.BusID, c.device.UUID, c.device.Serial)
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		out = append(out, c)
	}
	return out
}

// physicalFunction is said of a card whose virtual functions are in use: it is
// listed with the whole memory, but a task on it would take theirs (HAMi issue
// 1548).
const physicalFunction = "SR-IOV is enabled: the memory belongs to the virtual functions"

// number returns the device or process number that s is, or nil.
func number(s string) *int {
	if n := text.Int(s); n != nil && *n >= 0 {
		return n
	}
	return nil
}

// positive drops a total of 0, which no card has.
func positive(n *int64) *int64 {
	if n != nil && *n == 0 {
		return nil
	}
	return n
}

// parseTopology reads "topo -m".
func parseTopology(lines []string) (gpu.Parsed, bool) {
	t := gpu.ParseMatrix(gpu.Kunlun, lines)
	return gpu.Parsed{Topology: t}, t != nil
}

var (
	listLine  = text.Lazy(`^\s*XPU (\d{1,4}):\s*(\S.*)$`)
	listExtra = text.Lazy(`\(\s*(\w[\w ]*?)\s*:\s*([^()]*?)\s*\)`)
)

// parseList reads -L. Versions differ in what they print of a card: its bus id,
// "P800 OAM (UUID: GPU-…)" or "P800 OAM  GPU-…".
func parseList(lines []string) (gpu.Parsed, bool) {
	var cards []*card
	for _, line := range lines {
		m := listLine.FindStringSubmatch(line)
		if m == nil || errorWord.MatchString(line) {
			continue
		}
		c := &card{number: number(m[1])}
		for _, extra := range listExtra.FindAllStringSubmatch(m[2], -1) {
			switch strings.ToLower(extra[1]) {
			case "uuid":
				c.device.UUID = text.String(extra[2])
			case "sn", "serial", "serial number":
				c.device.Serial = text.String(extra[2])
			}
		}
		for word := range strings.FieldsSeq(listExtra.ReplaceAllString(m[2], " ")) {
			switch {
			case text.BusID(word) != "":
				c.device.BusID = text.BusID(word)
			case strings.HasPrefix(word, "GPU-"), strings.HasPrefix(word, "XPU-"):
				c.device.UUID = word
			default:
				c.device.Model = strings.TrimSpace(c.device.Model + " " + word)
			}
		}
		cards = append(cards, c)
	}
	return result(cards), len(cards) > 0
}

var noCard = text.Lazy(`(?i)\bno (?:xpu )?(?:devices?|xpus?) (?:were |was )?(?:found|detected)`)

// parseNone recognises what the tool says where there is no card.
func parseNone(lines []string) (gpu.Parsed, bool) {
	return gpu.Parsed{}, slices.ContainsFunc(lines, noCard.MatchString)
}
