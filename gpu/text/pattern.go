package text

import (
	"errors"
	"fmt"
	"regexp"
	"sync"
)

// Pattern is a regular expression that is compiled when it is first used. The agent's
// binary is also the log shim that starts with every containerd task, and compiling the
// two hundred expressions of all vendors at each start would cost it more than its work.
type Pattern struct {
	expr string
	once sync.Once
	re   *regexp.Regexp
}

// patterns are all that Lazy made.
var patterns struct {
	sync.Mutex
	all []*Pattern
}

// Lazy makes a Pattern. Like regexp.MustCompile it is for expressions that are constants;
// one that does not compile panics at its first use, and CompileAll finds it in a test.
func Lazy(expr string) *Pattern {
	p := &Pattern{expr: expr}
	patterns.Lock()
	defer patterns.Unlock()
	patterns.all = append(patterns.all, p)
	return p
}

// CompileAll tries every Pattern of the program.
func CompileAll() error {
	patterns.Lock()
	defer patterns.Unlock()
	var errs []error
	for _, p := range patterns.all {
		if _, err := regexp.Compile(p.expr); err != nil {
			errs = append(errs, fmt.Errorf("pattern %q: %w", p.expr, err))
		}
	}
	return errors.Join(errs...)
}

func (p *Pattern) compiled() *regexp.Regexp {
	p.once.Do(func() { p.re = regexp.MustCompile(p.expr) })
	return p.re
}

// MatchString is that of regexp.Regexp, as are the methods below.
func (p *Pattern) MatchString(s string) bool { return p.compiled().MatchString(s) }

// FindString returns the first match.
func (p *Pattern) FindString(s string) string { return p.compiled().FindString(s) }

// FindStringIndex returns where the first match is.
func (p *Pattern) FindStringIndex(s string) []int { return p.compiled().FindStringIndex(s) }

// FindStringSubmatch returns the first match and its groups.
func (p *Pattern) FindStringSubmatch(s string) []string { return p.compiled().FindStringSubmatch(s) }

// FindStringSubmatchIndex returns where the first match and its groups are.
func (p *Pattern) FindStringSubmatchIndex(s string) []int {
	return p.compiled().FindStringSubmatchIndex(s)
}

// FindAllString returns up to n matches.
func (p *Pattern) FindAllString(s string, n int) []string { return p.compiled().FindAllString(s, n) }

// FindAllStringSubmatch returns up to n matches with their groups.
func (p *Pattern) FindAllStringSubmatch(s string, n int) [][]string {
	return p.compiled().FindAllStringSubmatch(s, n)
}

// FindSubmatch returns the first match and its groups.
func (p *Pattern) FindSubmatch(b []byte) [][]byte { return p.compiled().FindSubmatch(b) }

// FindAllSubmatch returns up to n matches with their groups.
func (p *Pattern) FindAllSubmatch(b []byte, n int) [][][]byte {
	return p.compiled().FindAllSubmatch(b, n)
}

// Match tells whether there is a match in b.
func (p *Pattern) Match(b []byte) bool { return p.compiled().Match(b) }

// SubexpIndex returns the number of the group of that name, -1 if there is none.
func (p *Pattern) SubexpIndex(name string) int { return p.compiled().SubexpIndex(name) }

// ReplaceAllString replaces every match.
func (p *Pattern) ReplaceAllString(src, repl string) string {
	return p.compiled().ReplaceAllString(src, repl)
}

// Split cuts s at the matches, into at most n parts.
func (p *Pattern) Split(s string, n int) []string { return p.compiled().Split(s, n) }
