package text

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

var ansi = Lazy(`\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])`)

// orphan is what is left of a colour where a paste lost its escape character, or
// shows it by another.
var orphan = Lazy(`(?:\^\[|[\x{241B}\x{FFFD}])?\[\d{1,2}(?:;\d{1,3})*m`)

// Clean returns the output as text: invalid UTF-8 replaced, ANSI escapes and what
// a paste left of them, CR, NUL and byte order marks removed, the blanks that do not break (web pages and word
// processors put them in) made blanks. Windows' shells write UTF-16, of whose
// plain letters every other byte is NUL.
func Clean(output []byte) string {
	s := string(output)
	if strings.HasPrefix(s, "\xff\xfe") || strings.HasPrefix(s, "\xfe\xff") {
		s = s[2:]
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	s = ansi.ReplaceAllString(s, "")
	if strings.Contains(s, "[0m") { // every colour ends with this
		s = orphan.ReplaceAllString(s, "")
	}
	return plain.Replace(s)
}

var plain = strings.NewReplacer(
	"\r", "", "\x00", "", "\uFEFF", "", "\u00A0", " ", "\u2007", " ", "\u202F", " ")

// Lines returns the lines of Clean. Leading and trailing blanks stay.
func Lines(output []byte) []string {
	return strings.Split(strings.TrimSuffix(Clean(output), "\n"), "\n")
}

// Unwrap puts the rows of a table together that a narrow terminal or a mail
// program broke: rows begin and end with a bar. A terminal breaks where its width
// ends, also within a word; a mail program at a blank, which is lost. What a row
// takes over is left blank, so that lines keep their places. A table that was
// cropped at the right looks alike, but the next line is a row of its own.
func Unwrap(lines []string) []string {
	out := slices.Clone(lines)
	width := terminal(lines)
	row, full := -1, false // that is being put together; its last piece fills the width
	for i, line := range lines {
		bare, whole := strings.TrimSpace(line), utf8.RuneCountInString(line) == width
		switch {
		case row >= 0 && continues(out[row], bare, full, whole):
			if !full {
				out[row] += " "
			}
			out[row] += line
			out[i], full = "", whole
		case strings.HasPrefix(bare, "|"):
			row, full = i, whole
		default:
			row = -1
		}
	}
	return out
}

// terminal returns the width that broke the lines, -1 when none did: it is that of
// several lines, and of none more.
func terminal(lines []string) int {
	width, reached := 0, 0
	for _, line := range lines {
		switch n := utf8.RuneCountInString(line); {
		case n > width:
			width, reached = n, 1
		case n == width:
			reached++
		}
	}
	if reached < 2 {
		return -1
	}
	return width
}

// continues reports whether a line goes on with the row above it. full: the row's
// last piece fills the width; whole: the line does.
func continues(row, line string, full, whole bool) bool {
	begins, ends := strings.HasPrefix(line, "|"), strings.HasSuffix(line, "|")
	switch {
	case line == "" || Rule(line) || strings.HasPrefix(line, "+"):
		return false
	case !begins && ends:
		return true
	case !full || strings.HasSuffix(strings.TrimSpace(row), "|"):
		return false
	}
	return !begins || ends && !whole
}

var bars = strings.NewReplacer("│", "|", "┃", "|", "║", "|", "¦", "|")

// Cells splits a table row at its vertical bars, ASCII or box-drawing, and trims
// each cell; the outer bars make no cells. It returns nil for a line without a
// bar and for a rule (+---+, |===+===|).
func Cells(line string) []string {
	line = bars.Replace(strings.TrimSpace(line))
	if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ">") { // a log or a mail put that before it
		line = line[max(0, strings.Index(line, "|")):]
	}
	if !strings.Contains(line, "|") || Rule(line) {
		return nil
	}
	cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return cells
}

// Rule reports whether the line only draws: dashes, bars, crosses, stars or box
// drawing, and at least three of them.
func Rule(line string) bool {
	n := 0
	for _, r := range line {
		switch {
		case r == ' ' || r == '\t':
		case strings.ContainsRune("-=+|*_~", r), r >= 0x2500 && r <= 0x257F:
			n++
		default:
			return false
		}
	}
	return n >= 3
}

// KeyValue splits "  Key : value" at the first colon that has a blank, or the
// line's end, after it; both sides are trimmed. ok is false without such a colon
// or with an empty key.
func KeyValue(line string) (key, value string, ok bool) {
	for i := range len(line) {
		if line[i] != ':' {
			continue
		}
		if i+1 == len(line) || line[i+1] == ' ' || line[i+1] == '\t' {
			key = strings.TrimSpace(line[:i])
			return key, strings.TrimSpace(line[i+1:]), key != ""
		}
	}
	return "", "", false
}

// Pair splits "used / total" (glued or not: "60156/ 65536") at its only slash
// that is not part of an absent word: "N/A / 350W" gives "N/A" and "350W".
func Pair(s string) (first, second string, ok bool) {
	const mark = "\x01"
	s = na.ReplaceAllString(s, mark)
	first, second, ok = strings.Cut(s, "/")
	if !ok || strings.Contains(second, "/") {
		return "", "", false
	}
	back := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, mark, "N/A")) }
	return back(first), back(second), true
}

var na = Lazy(`(?i)\bN/A\b`)

// JSON returns the output from its first "{" to its last "}": tools print
// banners and warnings around their JSON. Nil when there is none.
func JSON(output []byte) []byte {
	i, j := bytes.IndexByte(output, '{'), bytes.LastIndexByte(output, '}')
	if i < 0 || j < i {
		return nil
	}
	return output[i : j+1]
}
