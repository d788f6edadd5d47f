package ascend

import (
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// entry is one "Key : value" line; the key is in lower case, without the blank
// that some versions print before the unit.
type entry struct{ key, value string }

var beforeUnit = text.Lazy(`\s+\(`)

// entries reads key/value lines. A line with an empty key continues the value
// before it.
func entries(lines []string) []entry {
	var out []entry
	for _, line := range lines {
		if key, value, ok := text.KeyValue(line); ok {
			key = beforeUnit.ReplaceAllString(strings.ToLower(strings.Join(strings.Fields(key), " ")), "(")
			out = append(out, entry{key, value})
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
}

// telling are the keys by which these outputs are recognised.
var telling = []string{
	"npu id", "health status", "error code", "fault event count", "total count", "card count",
	"npu real-time power(w)", "temperature(c)", "aicore usage rate(%)", "hbm capacity(mb)", "ddr capacity(mb)",
}

// parseBlocks reads "info -l" and every "info -t TYPE" of one card.
func parseBlocks(lines []string, sc scope) (gpu.Parsed, bool) {
	all := entries(lines)
	recognised := slices.ContainsFunc(all, func(e entry) bool { return slices.Contains(telling, e.key) })
	p := gpu.Parsed{Processes: listedProcesses(lines)}
	if !recognised && len(p.Processes) == 0 {
		return gpu.Parsed{}, false
	}
	for _, b := range readBlocks(all, sc) {
		d := device(len(p.GPUs))
		s, failures := b.fill(&d)
		p.GPUs = append(p.GPUs, d)
		p.Failures = append(p.Failures, failures...)
		if measured(s) {
			p.Stats = append(p.Stats, s)
		}
	}
	for i := range p.Processes {
		if len(p.GPUs) == 1 {
			p.Processes[i].Index = p.GPUs[0].Index
		}
	}
	return p, true
}

// readBlocks splits the entries into cards at "NPU ID", and those into chips.
// What stands before the first is about the listing, not about a card.
func readBlocks(all []entry, sc scope) []block {
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
	return slices.DeleteFunc(out, func(b block) bool { return b.chip == nil || helperChip(b.values["chip name"]) })
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
	if card == nil && len(b.values) == 0 {
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
	case "chip id":
		b.chip = id(e.value)
	case "fault event information":
		b.faults = append(b.faults, e.value)
	}
	if _, twice := b.values[e.key]; !twice {
		b.values[e.key] = e.value
	}
}
