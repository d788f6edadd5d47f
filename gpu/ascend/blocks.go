package ascend

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// entry is one "Key : value" line; the key is in lower case, without the blank
// that some versions print before the unit.
type entry struct {
	key, value string
	process    *gpu.Process // of a processKey, nil when there is none on the chip
}

// processKey is the key of the lines of "-t proc-mem", which are no key/value lines.
const processKey = "process"

var beforeUnit = text.Lazy(`\s+\(`)

// entries reads key/value lines. A line with an empty key continues the value
// before it.
func entries(lines []string) []entry {
	var out []entry
	for _, line := range lines {
		if p, ok := listedProcess(line); ok {
			out = append(out, entry{key: processKey, process: p})
			continue
		}
		if key, value, ok := text.KeyValue(line); ok {
			key = beforeUnit.ReplaceAllString(strings.ToLower(strings.Join(strings.Fields(key), " ")), "(")
			out = append(out, entry{key: key, value: value})
			continue
		}
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), ": "); ok && len(out) > 0 {
			out[len(out)-1].value += "; " + rest
		}
	}
	return out
}

// block is what "info -t TYPE" says of one chip, or of a card as a whole (chip
// nil).
type block struct {
	card, chip *int
	values     map[string]string
	faults     []string
	processes  []gpu.Process
}

// telling are the keys by which these outputs are recognised also where the
// arguments do not say what they are.
var telling = []string{
	"npu id", "health status", "error code", "fault event count", "total count", "card count", processKey,
	"npu real-time power(w)", "temperature(c)", "aicore usage rate(%)", "hbm capacity(mb)", "ddr capacity(mb)",
}

// padded is a line as "-t TYPE" prints them, with blanks before the colon: an
// error that has a colon has none.
var padded = text.Lazy(`^\s*[A-Za-z][^:]*\s: `)

// parseBlocks reads "info -l" and every "info -t TYPE" of one card.
func parseBlocks(lines []string, sc scope) (gpu.Parsed, bool) {
	all := entries(lines)
	recognised := slices.ContainsFunc(all, func(e entry) bool { return slices.Contains(telling, e.key) }) ||
		sc.typed && sc.card != nil && slices.ContainsFunc(lines, padded.MatchString)
	if !recognised {
		return gpu.Parsed{}, false
	}
	var p gpu.Parsed
	for _, b := range merged(readBlocks(all, sc)) {
		if b.card == nil && len(b.values) == 0 { // processes of a card that nobody named
			p.Processes = append(p.Processes, b.processes...)
			continue
		}
		d := device(len(p.GPUs))
		s, failures := b.fill(&d)
		p.GPUs = append(p.GPUs, d)
		p.Failures = append(p.Failures, failures...)
		if measured(s) {
			p.Stats = append(p.Stats, s)
		}
		for _, process := range b.processes {
			process.Index = d.Index
			p.Processes = append(p.Processes, process)
		}
	}
	return p, true
}

// readBlocks splits the entries into cards at "NPU ID", and those into chips.
// What stands before the first is about the listing, not about a card.
func readBlocks(all []entry, sc scope) []block {
	if len(all) > 1 && all[0].key == "chip phy-id" && all[1].key == "npu id" { // of phyid-remap
		all[0], all[1] = all[1], all[0]
	}
	if answers := nameless(all, sc); len(answers) > 1 {
		return answers
	}
	var out []block
	card, from := sc.card, 0
	for i, e := range all {
		if e.key != "npu id" {
			continue
		}
		if from > 0 {
			out = append(out, chips(all[from:i], card, sc.chip)...)
		}
		card, from = id(e.value), i+1
	}
	return append(out, chips(all[from:], card, sc.chip)...)
}

// merged puts together what several queries, or the rounds of a loop, say of one
// chip; of two values of a key the first stands.
func merged(blocks []block) []block {
	var out []block
	for _, b := range blocks {
		at := slices.IndexFunc(out, func(o block) bool {
			return b.card != nil && equal(o.card, b.card) && equal(o.chip, b.chip)
		})
		if at < 0 {
			out = append(out, b)
			continue
		}
		for key, value := range b.values {
			if _, twice := out[at].values[key]; !twice {
				out[at].values[key] = value
			}
		}
		for _, f := range b.faults {
			if !slices.Contains(out[at].faults, f) {
				out[at].faults = append(out[at].faults, f)
			}
		}
		for _, process := range b.processes {
			if !slices.ContainsFunc(out[at].processes, func(o gpu.Process) bool { return o.PID == process.PID }) {
				out[at].processes = append(out[at].processes, process)
			}
		}
	}
	return out
}

// nameless splits the answers of a shell's loop over the cards where they name
// neither card nor chip, as those of "-t health -i $i -c 0": each begins with the
// same key.
func nameless(all []entry, sc scope) []block {
	named := func(e entry) bool { return e.key == "npu id" || isMark(e) }
	if sc.card != nil || slices.ContainsFunc(all, named) {
		return nil
	}
	var out []block
	from := 0
	for i := 1; i <= len(all); i++ {
		if i == len(all) || all[i].key == all[0].key && all[i].key != processKey {
			out = append(out, whole(all[from:i], nil, sc.chip, "1")...)
			from = i
		}
	}
	return out
}

// chips splits one card's entries. "Chip ID" opens a chip's block in "-t common"
// and closes it in "-t usages" and "-t product": it closes when values stand
// before the first. A block named after the Mcu is about the board and dropped.
func chips(card []entry, cardID, asked *int) []block {
	values, count := withoutCounts(card)
	first := slices.IndexFunc(values, isMark)
	if first < 0 {
		return whole(values, cardID, asked, count)
	}
	var out []block
	var current *block
	for i, e := range values {
		if current == nil || first == 0 && current.ends(e) {
			out = append(out, block{card: cardID, values: map[string]string{}})
			current = &out[len(out)-1]
		}
		current.add(e)
		if first > 0 && isMark(e) && slices.ContainsFunc(values[i+1:], isMark) {
			current = nil
		}
	}
	if chips := slices.DeleteFunc(slices.Clone(out), block.isHelper); len(chips) > 0 {
		return chips
	}
	return board(out, cardID)
}

// isHelper reports whether the block is about the Mcu or another chip that is no NPU.
func (b block) isHelper() bool {
	_, chip := b.values["chip id"]
	return !chip || helperChip(b.values["chip name"])
}

// board makes one block of a card of whose chips an output says nothing: the Mcu
// measures the power of the whole board ("-t power" of a 310P). Its temperature
// and firmware are its own.
func board(helpers []block, card *int) []block {
	for _, b := range helpers {
		for _, key := range powerKeys {
			if watts, ok := b.values[key]; ok && card != nil {
				return []block{{card: card, values: map[string]string{key: watts}}}
			}
		}
	}
	return nil
}

// withoutCounts takes the counts out of the entries; count is that of the chips.
func withoutCounts(card []entry) (values []entry, count string) {
	count = "1"
	for _, e := range card {
		switch e.key {
		case "chip count":
			count = e.value
		case "total count", "card count":
		default:
			values = append(values, e)
		}
	}
	return values, count
}

// whole makes one block of a card whose output names no chip: the chip that was
// asked for, the only one, or, of several, the card.
func whole(values []entry, card, asked *int, count string) []block {
	b := block{card: card, chip: asked, values: map[string]string{}}
	if asked == nil && count == "1" {
		b.chip = new(0)
	}
	for _, e := range values {
		b.add(e)
	}
	if card == nil && len(b.values)+len(b.processes) == 0 {
		return nil // an empty listing
	}
	return []block{b}
}

// isMark reports whether e names the chip that a block is about.
func isMark(e entry) bool { return e.key == "chip id" || e.key == "chip name" && helperChip(e.value) }

// ends reports whether e opens the block after b: a chip's number does, and the
// name of the Mcu unless it belongs to the number just read.
func (b *block) ends(e entry) bool {
	return e.key == "chip id" || isMark(e) && len(b.values) > 1
}

func (b *block) add(e entry) {
	switch e.key {
	case processKey:
		if e.process != nil {
			b.processes = append(b.processes, *e.process)
		}
		return
	case "chip id":
		b.chip = id(e.value)
	case "fault event information":
		b.faults = append(b.faults, e.value)
	}
	if _, twice := b.values[e.key]; !twice {
		b.values[e.key] = e.value
	}
}
