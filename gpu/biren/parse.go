package biren

import (
	"errors"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu"
	"github.com/heteroflow/node-agent/gpu/text"
)

// Codes of collector errors and failures that this package gives.
const (
	CodeTool        = "tool_error"      // the tool says "error"
	CodeUnparsedRow = "unparsed_row"    // a card's row has not the fields that were asked for
	CodeNoFields    = "unknown_columns" // rows, but neither a header nor the query that led to them
)

var (
	errForm    = errors.New("not a known form of brsmi's output")
	toolError  = text.Lazy(`(?i)^\W*(?:error|failed|unable to|can(?:no|')t|no devices?|unknown|invalid|usage)\b|error while loading shared libraries|not a valid field|driver\b.*\bnot\b`)
	title      = text.Lazy(`^([a-z_]+(?:\.[a-z_]+)*)(?:\s*\[(\S+)\])?$`) // "memory.used [MiB]"
	numberOnly = text.Lazy(`^\d{1,4}$`)
)

// Parse says what an output of "brsmi gpu --query-gpu=…" means. The columns are
// named by the header or, with "noheader", by the arguments. The exit status is
// not looked at.
func Parse(argv []string, _ int, output []byte) (gpu.Parsed, error) {
	args, _ := text.ToolArgs(argv, toolName)
	var t table
	t.columns = asked(args)
	known := false
	for _, line := range text.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || text.Rule(line) {
			continue
		}
		values := strings.Split(line, ",")
		for i := range values {
			values[i] = strings.TrimSpace(values[i])
		}
		switch head := header(values); {
		case head != nil:
			t.columns, known = head, true
		case toolError.MatchString(line):
			t.complain(CodeTool, line)
		default:
			t.row(values, line)
		}
	}
	if t.unnamed != "" && t.empty() {
		t.complain(CodeNoFields, "no column names for: "+t.unnamed)
	}
	if !known && t.empty() {
		return gpu.Parsed{}, errForm
	}
	return t.parsed, nil
}

// asked returns the fields of --query-gpu=.
func asked(args []string) []string {
	for i, a := range args {
		list, ok := strings.CutPrefix(a, "--query-gpu=")
		if a == "--query-gpu" && i+1 < len(args) {
			list, ok = args[i+1], true
		}
		if ok {
			return strings.Split(list, ",")
		}
	}
	return nil
}

// header returns the names of the columns without their units, or nil when the
// line is no header: one has the index, by which cards are told apart.
func header(values []string) []string {
	names := make([]string, 0, len(values))
	for _, v := range values {
		m := title.FindStringSubmatch(v)
		if m == nil {
			return nil
		}
		names = append(names, m[1])
	}
	if !slices.Contains(names, "index") {
		return nil
	}
	return names
}
