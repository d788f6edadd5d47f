package ascend

import (
	"strings"

	"github.com/heteroflow/node-agent/gpu/text"
)

var (
	slash  = text.Lazy(`\s*/\s*`)
	blanks = text.Lazy(`\s{2,}`)
	word   = text.Lazy(`(?:\[[^\]]*\]|\S)+`)
)

// label is a column's name in lower case and the unit in its parentheses.
type label struct{ name, unit string }

// labels splits a heading such as "NPU Util(%) Memory-Usage(MB)  HBM-Usage(MB)"
// into its columns: a unit in parentheses, or two blanks, end one.
func labels(heading string) []label {
	var out []label
	for _, part := range strings.SplitAfter(heading, ")") {
		for _, s := range blanks.Split(strings.TrimSpace(part), -1) {
			if s == "" {
				continue
			}
			name, unit, _ := strings.Cut(strings.ToLower(s), "(")
			out = append(out, label{strings.TrimSpace(name), strings.TrimSuffix(unit, ")")})
		}
	}
	return out
}

// words splits the values of a row; "60156/ 65536" is one, and so is "[Not Supported]".
func words(s string) []string { return word.FindAllString(slash.ReplaceAllString(s, "/"), -1) }

// value is one cell with the unit of its column.
type value struct{ word, unit string }

// assign gives each column its word. Where a value is missing, so that words
// and columns do not come out even, those of one kind ("used/total" or a plain
// value) are still assigned if they do; the others stay absent.
func assign(columns []label, words []string) map[string]value {
	values := map[string]value{}
	give := func(c []label, w []string) {
		if len(c) != len(w) {
			return
		}
		for i := range c {
			values[c[i].name] = value{w[i], c[i].unit}
		}
	}
	if len(columns) == len(words) {
		give(columns, words)
		return values
	}
	for _, pairs := range []bool{true, false} {
		var c []label
		var w []string
		for _, column := range columns {
			if strings.Contains(column.name, "usage") == pairs {
				c = append(c, column)
			}
		}
		for _, one := range words {
			if strings.Contains(one, "/") == pairs {
				w = append(w, one)
			}
		}
		give(c, w)
	}
	return values
}
