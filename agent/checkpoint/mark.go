package checkpoint

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// markName is the platform's own completion mark: in a directory, or after a file's name.
// Frameworks without a mark of their own can be made safe by one line at the end of saving:
//
//	echo $STEP > $DIR/.heteroflow-complete
const markName = ".heteroflow-complete"

// probeMark leaves a mark whose file is gone alone: retention may forget the mark.
func probeMark(d *dir) (Found, error) {
	var cs []candidate
	add := func(name, mark string) error {
		c, err := d.marked(name, mark)
		if err == nil {
			cs = append(cs, c)
		}
		if aborts(err) {
			return err
		}
		return nil
	}
	for _, name := range d.names() {
		target := strings.TrimSuffix(name, markName)
		var err error
		switch {
		case d.hasDir(name):
			err = add(name, path.Join(name, markName))
		case name == markName:
			err = add(".", name)
		case target != name && d.hasFile(target):
			err = add(target, name)
		}
		if err != nil {
			return Found{}, err
		}
	}
	if len(cs) == 0 {
		return Found{}, errNotMine
	}
	return d.choose(newestFirst(cs), "the job marked it complete ("+markName+")", func(c candidate) error {
		if c.name == "." || d.hasDir(c.name) {
			return nil
		}
		return d.hasContent(c.name)
	})
}

// marked makes a candidate of name if its mark is there. The step is the mark's content,
// else the number name ends in.
func (d *dir) marked(name, mark string) (candidate, error) {
	size, mtime, err := d.sizeAndTime(mark)
	if err != nil {
		return candidate{}, err
	}
	c := candidate{name: name, step: firstGroup(endNumber, strings.TrimRight(name, "/")), mtime: mtime}
	read := func(in *dir) error {
		if !in.hasFile(path.Base(mark)) {
			return in.missing(path.Base(mark), "file")
		}
		if size > maxSmallText {
			return nil // a mark all the same, but no step
		}
		text, err := in.read(path.Base(mark), maxSmallText)
		if step, ok := parseStep(text); ok {
			c.step = &step
		}
		return err
	}
	if dirName := path.Dir(mark); dirName != "." {
		return c, d.in(dirName, read)
	}
	return c, read(d)
}

// parseStep reads decimal digits with blanks around them.
func parseStep(text []byte) (int64, bool) {
	s := strings.TrimSpace(string(text))
	if !allDigits.MatchString(s) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// component accepts text as the name of a directory entry: what a pointer file says must
// not lead elsewhere.
func component(text []byte) (string, error) {
	name := strings.TrimSpace(string(text))
	switch {
	case name == "":
		return "", errors.New("is empty: it was cut off by a crash, or nothing was saved yet")
	case name == ".", name == "..", len(name) > 255, strings.ContainsAny(name, "/\\\x00\n\r"):
		return "", fmt.Errorf("names %.80q, which is no directory here", name)
	}
	return name, nil
}
