package tool

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"

	"github.com/heteroflow/node-agent/gpu/text"
)

// What a masked word becomes begins with one of these.
const (
	maskSerial = "SERIAL"
	maskHost   = "HOST"
)

// shortest is the length below which a word is not masked: shorter ones ("0",
// "N/A", "node") are no identity, and would be replaced inside other words.
const shortest = 6

// mask replaces words by others of the same length, the same word always by the
// same other, so that tables keep their columns and cards keep apart.
type mask struct {
	words map[string]string
}

// add makes a replacement for a word, unless it has one or is too short.
func (m *mask) add(word, kind string) {
	word = strings.TrimSpace(word)
	if _, known := m.words[word]; known || len(word) < shortest || !hasDigitOrIsHost(word, kind) {
		return
	}
	if m.words == nil {
		m.words = map[string]string{}
	}
	n := fmt.Sprint(len(m.words) + 1)
	if room := len(word) - len(n); room >= len(kind) {
		m.words[word] = kind + strings.Repeat("0", room-len(kind)) + n
	} else {
		m.words[word] = strings.Repeat("X", max(room, 0)) + n
	}
}

// hasDigitOrIsHost keeps words that only look like a value ("Number", "unknown")
// from being taken for a serial number.
func hasDigitOrIsHost(word, kind string) bool {
	return kind == maskHost || strings.ContainsAny(word, "0123456789")
}

// apply replaces every known word in out, the longest first.
func (m *mask) apply(out []byte) []byte {
	words := make([]string, 0, len(m.words))
	for w := range m.words {
		words = append(words, w)
	}
	slices.SortFunc(words, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	for _, w := range words {
		out = bytes.ReplaceAll(out, []byte(w), []byte(m.words[w]))
	}
	return out
}

// labelled finds values that an output itself calls a serial number or a host
// name: "Serial Number : X", "SN: X", <serial>X</serial>, "Board SN" : "X".
var labelled = text.Lazy(
	`(?i)(?:serial(?:[ _-]?(?:number|no\.?|num))?|\bSN|\bhost[ _-]?name)"?\s*(?:\(s\))?\s*(?:[:=>]|-->)+\s*"?([A-Za-z0-9][A-Za-z0-9._/-]{4,})`)

// serials returns what an output gives away: labelled values, and the columns of
// a CSV query whose fields are serials or host names.
func serials(argv []string, out []byte) []string {
	var found []string
	for _, m := range labelled.FindAllSubmatch(out, -1) {
		found = append(found, string(m[1]))
	}
	for _, arg := range argv {
		_, fields, ok := strings.Cut(arg, "--query-gpu=")
		if !ok {
			continue
		}
		for i, field := range strings.Split(fields, ",") {
			if strings.Contains(field, "serial") || field == "hostname" {
				found = append(found, column(out, i)...)
			}
		}
	}
	return found
}

// column returns the i-th value of each line of a CSV output.
func column(out []byte, i int) []string {
	r := csv.NewReader(bytes.NewReader(out))
	r.FieldsPerRecord, r.LazyQuotes, r.TrimLeadingSpace = -1, true, true
	rows, err := r.ReadAll()
	if err != nil { // no CSV, so no column
		return nil
	}
	var values []string
	for _, row := range rows {
		if i < len(row) {
			values = append(values, row[i])
		}
	}
	return values
}
