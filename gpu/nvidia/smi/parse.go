package smi

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Result is what one output says. Beside what every vendor's parser gives, it
// names the cards whose driver says that they need no recovery: drivers before
// 535 do not say, which is not the same.
type Result struct {
	gpu.Parsed
	NoAction []string // uuids
}

// errUnknown is the answer to a text that is no form of nvidia-smi's output.
var errUnknown = errors.New("not a known form of nvidia-smi's output")

// Parse reads one output. argv names the fields of a CSV without a header and
// the card that -i selected; otherwise the form is recognised by its content.
func Parse(argv []string, exitCode int, output []byte) (Result, error) {
	args, _ := text.ToolArgs(argv, "nvidia-smi")
	doc := newDocument(args, exitCode, text.Lines(output))
	known := doc.read()
	// What stands after the last error of the tool as a whole is newer than it:
	// a log of many samples. Cards before it are not there any more.
	if e := doc.fatal; e != nil && !doc.cardsAfter(e.line) {
		doc.cards, doc.parsed = nil, gpu.Parsed{CollectorError: e.as()}
		if e.code == codeNoDevices && len(doc.failures) > 0 {
			doc.parsed.CollectorError = nil // the failures are why there is none
		}
	}
	res := doc.result()
	silent := len(bytes.TrimSpace(output)) == 0
	told := res.CollectorError != nil || len(res.Failures) > 0 || known && (exitCode == 0 || !silent)
	code, meant := exitCodes[exitCode]
	switch {
	case told:
	case meant:
		res.CollectorError = &gpu.CollectorError{Code: code, Message: firstWords(doc.lines, exitCode)}
	default:
		return Result{}, errUnknown
	}
	return res, nil
}

// document is an output while it is being read.
type document struct {
	args     []string
	exitCode int
	lines    []string // an error line is blank here once it has been read
	fatal    *problem // the last error of the tool as a whole
	unnamed  *problem // an error of a card that cannot be named
	failures []failure
	cards    []*card
	parsed   gpu.Parsed // everything but the cards
}

func newDocument(args []string, exitCode int, lines []string) *document {
	d := &document{args: args, exitCode: exitCode, lines: lines}
	d.scan()
	return d
}

// read tries the forms, most telling first, and reports whether it knew one.
// The forms of one line each (rows of the table, lines of -L) may stand together
// in a paste, so they are read together.
func (d *document) read() bool {
	what, _ := query(d.args)
	switch {
	case what != "" && d.readCSV(): // every round's form comes first
		return true
	case slices.ContainsFunc(d.lines, func(line string) bool { return strings.Contains(line, xmlRoot) }):
		return d.readXML()
	case d.readMIG(), d.skips():
		return true
	case d.readTopology(), d.readMonitor(), d.readLog(), d.readCSV():
		return true
	}
	return d.readTable() || slices.ContainsFunc(d.lines, sentence.MatchString)
}

// sentence is a line of what is answered to an operator's other commands (-pm,
// -pl), or of "topo -c, -n, -p". Cards may stand beside it.
var sentence = text.Lazy(`^(?:All done\.\s*$|The following GPUs (?:are connected to|have an affinity with) |` +
	`Device \d+ is connected to device \d+ by way of )`)

// skipped are the forms that hold nothing that the agent reports: the speed of
// links ("nvlink -s", which repeats the lines of -L as headings), the answer of
// --gpu-reset, an operator's command, the state of confidential computing, and
// --version. Each is told by an argument or by a line.
var skipped = []struct {
	args []string
	line *text.Pattern
}{
	{[]string{"nvlink"}, text.Lazy(`^\s+Link \d+:`)},
	{[]string{"-r", "--gpu-reset"}, text.Lazy(`(?i)^(?:The following GPUs could not be reset|Resetting GPU .* is not supported|` +
		`GPU [0-9a-f:.]+ was successfully reset)`)},
	{[]string{"conf-compute"}, text.Lazy(`^CC status: `)},
	{[]string{"--version"}, text.Lazy(`^NVIDIA-SMI version\s*:`)},
}

func (d *document) skips() bool {
	for _, form := range skipped {
		for _, arg := range form.args {
			if slices.Contains(d.args, arg) {
				return true
			}
		}
		if slices.ContainsFunc(d.lines, form.line.MatchString) {
			return true
		}
	}
	return false
}

// peerWords stand in the matrix of "topo -p2p", which is not about distance.
var peerWords = []string{"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"}

func (d *document) readTopology() bool {
	t := gpu.ParseMatrix(gpu.NVIDIA, d.lines)
	if t == nil {
		return false
	}
	for _, l := range t.Links {
		if slices.Contains(peerWords, l.Type) {
			return true
		}
	}
	d.parsed.Topology = t
	return true
}

// cardsAfter reports whether a card was seen after the given line.
func (d *document) cardsAfter(line int) bool {
	return slices.ContainsFunc(d.cards, func(c *card) bool { return c.line > line })
}

// result puts cards and failures together.
func (d *document) result() Result {
	d.number()
	res := Result{Parsed: d.parsed}
	for _, f := range d.failures {
		if f.Index == nil && f.BusID == "" { // a row without a name, whose number did not come out
			d.unnamed = &problem{f.line, f.Code, f.Message}
			continue
		}
		if c := d.blamed(f); c != nil {
			c.blame(f)
			f.Index, f.UUID = cmp.Or(f.Index, c.device.Index), c.device.UUID
		}
		res.Failures = append(res.Failures, f.Failure)
	}
	for _, c := range d.cards {
		f := c.finish()
		res.GPUs, res.Stats = append(res.GPUs, c.device), append(res.Stats, c.stats)
		if f != nil {
			res.Failures = append(res.Failures, *f)
		}
		if c.action == actionNone && c.device.UUID != "" {
			res.NoAction = append(res.NoAction, c.device.UUID)
		}
	}
	if d.unnamed != nil && len(res.GPUs) == 0 {
		res.CollectorError = d.unnamed.as()
	}
	d.instances(&res)
	return res
}

// instances gives each card the MIG devices that the output lists for it.
func (d *document) instances(res *Result) {
	if res.MIG == nil {
		return
	}
	for i := range res.GPUs {
		dev := &res.GPUs[i]
		for _, m := range res.MIG.Devices {
			if m.GPU != nil && dev.Index != nil && *m.GPU == *dev.Index {
				dev.Instances = append(dev.Instances, gpu.Instance{GI: m.GI, CI: m.CI, UUID: m.UUID, Profile: m.Profile})
			}
		}
	}
}

// blamed finds the card that a failure line names.
func (d *document) blamed(f failure) *card {
	for _, c := range d.cards {
		switch dev := c.device; {
		case f.BusID != "" && dev.BusID != "":
			if f.BusID == dev.BusID {
				return c
			}
		case f.Index != nil && dev.Index != nil && *f.Index == *dev.Index:
			return c
		}
	}
	return nil
}

// number gives a failure its index where the rows around it leave only one: the
// tool prints the error in the lost card's place, and the others keep their numbers.
func (d *document) number() {
	for i := range d.failures {
		f := &d.failures[i]
		if f.Index != nil || d.blamed(*f) != nil {
			continue
		}
		before, after := d.around(f.line)
		if before == nil || after == nil {
			continue
		}
		var between []*failure
		for j := range d.failures {
			if g := &d.failures[j]; g.line > before.line && g.line < after.line {
				between = append(between, g)
			}
		}
		if first := *before.device.Index + 1; *after.device.Index-first == len(between) {
			f.Index = new(first + slices.Index(between, f))
		}
	}
}

// around returns the numbered cards on both sides of a line.
func (d *document) around(line int) (before, after *card) {
	for _, c := range d.cards {
		switch {
		case c.device.Index == nil:
		case c.line < line:
			before = c
		case after == nil:
			after = c
		}
	}
	return before, after
}

// card returns the card of an index, a new one if there is none yet.
func (d *document) card(index, line int) *card {
	for _, c := range d.cards {
		if c.device.Index != nil && *c.device.Index == index {
			c.line = line
			return c
		}
	}
	c := &card{line: line}
	c.device.Index = &index
	d.cards = append(d.cards, c)
	return c
}

// mig returns where MIG listings go.
func (d *document) mig() *gpu.MIG {
	if d.parsed.MIG == nil {
		d.parsed.MIG = &gpu.MIG{}
	}
	return d.parsed.MIG
}

// selected returns the one card that -i selects by number, or nil.
func selected(args []string) *int {
	for i, a := range args {
		value, glued := "", false
		for _, name := range []string{"-i", "--id"} {
			if v, ok := strings.CutPrefix(a, name+"="); ok {
				value, glued = v, true
			} else if a == name && i+1 < len(args) && !glued {
				value = args[i+1]
			}
		}
		if n := text.Int(value); n != nil && *n >= 0 {
			return n
		}
	}
	return nil
}

// picks reports whether -i is there at all: the rows are then not all cards.
func picks(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		return a == "-i" || a == "--id" || strings.HasPrefix(a, "-i=") || strings.HasPrefix(a, "--id=")
	})
}
