package checkpoint

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// candidate is something that may be a complete checkpoint.
type candidate struct {
	name  string
	step  *int64
	mtime time.Time // of what is written last; zero where the step orders them all
}

// newestFirst orders by step. Candidates without one, such as last.ckpt, come before the
// others if the first of them is at least as new as the file of the highest step, else
// after: file times are all there is to place them by.
func newestFirst(cs []candidate) []candidate {
	var numbered, plain []candidate
	for _, c := range cs {
		if c.step != nil {
			numbered = append(numbered, c)
		} else {
			plain = append(plain, c)
		}
	}
	slices.SortFunc(numbered, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(*b.step, *a.step), b.mtime.Compare(a.mtime), cmp.Compare(a.name, b.name))
	})
	slices.SortFunc(plain, func(a, b candidate) int {
		return cmp.Or(b.mtime.Compare(a.mtime), cmp.Compare(a.name, b.name))
	})
	if len(plain) > 0 && len(numbered) > 0 && plain[0].mtime.Before(numbered[0].mtime) {
		return slices.Concat(numbered, plain)
	}
	return slices.Concat(plain, numbered)
}

// choose takes the first candidate that check finds complete. The others become notes.
func (d *dir) choose(cs []candidate, evidence string, check func(candidate) error) (Found, error) {
	var passed notes
	for _, c := range cs {
		err := check(c)
		if aborts(err) {
			return Found{}, err
		}
		if err != nil {
			passed.add("%q is incomplete: %v", c.name, err)
			continue
		}
		return Found{Path: path.Join(d.path, c.name), Step: c.step, Reason: passed.after(evidence)}, nil
	}
	return Found{Reason: passed.after("no complete checkpoint")}, nil
}

// notes say what was passed over, in one line of bounded length.
type notes struct {
	lines []string
	more  int
}

const (
	maxNotes   = 3
	maxNoteLen = 240
)

func (n *notes) add(format string, args ...any) {
	if len(n.lines) == maxNotes {
		n.more++
		return
	}
	line := strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
	if len(line) > maxNoteLen {
		line = strings.ToValidUTF8(line[:maxNoteLen], "") + "…"
	}
	n.lines = append(n.lines, line)
}

func (n *notes) after(first string) string {
	parts := slices.Concat([]string{first}, n.lines)
	if n.more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", n.more))
	}
	return strings.Join(parts, "; ")
}

var (
	endNumber  = regexp.MustCompile(`([0-9]{1,18})$`)
	stepNumber = regexp.MustCompile(`step[=_-]?([0-9]{1,18})`)
	allDigits  = regexp.MustCompile(`^[0-9]{1,18}$`)
)

// firstGroup is the number in the first group of re, nil when there is none.
func firstGroup(re *regexp.Regexp, s string) *int64 {
	m := re.FindStringSubmatch(s)
	if m == nil {
		return nil
	}
	n, err := strconv.ParseInt(m[len(m)-1], 10, 64)
	if err != nil {
		return nil // cannot happen: 18 digits fit
	}
	return &n
}
