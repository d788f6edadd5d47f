package text

import "strings"

// Sections are the headings above a line of a log that tells its structure by
// indentation, outermost first. The zero value stands above the first line.
type Sections []section

type section struct {
	indent int
	name   string
}

// deepest is far above what any tool nests; what lies deeper has no heading.
const deepest = 32

// Place leaves the sections that line is not in, and returns the innermost that
// it is in, or "".
func (s *Sections) Place(line string) string {
	indent := Indent(line)
	for len(*s) > 0 && (*s)[len(*s)-1].indent >= indent {
		*s = (*s)[:len(*s)-1]
	}
	if len(*s) == 0 {
		return ""
	}
	return (*s)[len(*s)-1].name
}

// Open enters the section whose heading line is. A blank line and a rule are none.
func (s *Sections) Open(line string) {
	name := strings.TrimRight(strings.TrimSpace(line), " :")
	if name == "" || Rule(line) || len(*s) == deepest {
		return
	}
	*s = append(*s, section{Indent(line), name})
}

// Indent returns by how many blanks a line is indented; a tab counts as one.
func Indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t")) }
