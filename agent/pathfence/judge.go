package pathfence

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// open resolves path once, by opening it, and judges what was opened.
func (f *Fence) open(raw string, access Access) (*os.File, Resolved, error) {
	clean, err := cleanPath(raw)
	if err != nil {
		return nil, Resolved{}, err
	}
	// Before anything is touched, so that nobody learns what exists outside.
	if !withinAny(clean, f.allow) {
		return nil, Resolved{}, f.outside(raw, "", "it is outside")
	}
	for _, rule := range f.rules(access) {
		if how := relation(clean, rule, Within); how != "" {
			return nil, Resolved{}, f.deniedBy(raw, "", rule, how)
		}
	}
	o, err := openObject(clean)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil, Resolved{}, &MissingError{Path: raw}
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG):
		return nil, Resolved{}, &DeniedError{Path: raw, Reason: fmt.Sprintf("the kernel cannot follow it: %v", err)}
	case err != nil:
		return nil, Resolved{}, fmt.Errorf("look at host path %q: %w", raw, err)
	}
	root, err := f.judge(raw, o, access)
	if err != nil {
		return nil, Resolved{}, errors.Join(err, o.file.Close())
	}
	return o.file, Resolved{Path: o.path, Root: root, Dir: o.isDir(), ID: o.id}, nil
}

// judge decides about an object that path led to and names the allowed directory it is in.
func (f *Fence) judge(raw string, o *object, access Access) (root string, err error) {
	if o.mode != unix.S_IFDIR && o.mode != unix.S_IFREG {
		return "", &DeniedError{Path: raw, Resolved: o.path, Reason: fmt.Sprintf("it is %s, and only directories and regular files can be given to a task", o.kind())}
	}
	mounts, err := readMounts()
	if err != nil {
		return "", fmt.Errorf("check host path %q: %w", raw, err)
	}
	shown, err := mounts.shownBy(o)
	if err != nil {
		return "", fmt.Errorf("check host path %q: %w", raw, err)
	}
	for _, m := range shown {
		if kernelTypes[m.fsType] {
			return "", &DeniedError{Path: raw, Resolved: o.path, Rule: m.fsType, Reason: fmt.Sprintf("a %s file system is mounted at %q", m.fsType, m.point)}
		}
	}
	for _, rule := range f.rules(access) {
		if err := f.judgeRule(raw, o, rule, mounts, shown); err != nil {
			return "", err
		}
	}
	return f.admit(raw, o)
}

// judgeRule compares everything o shows with what the denied path rule really is.
func (f *Fence) judgeRule(raw string, o *object, rule string, mounts mountTable, shown []mount) error {
	if how := relation(o.path, rule, Within); how != "" {
		return f.deniedBy(raw, o.path, rule, how)
	}
	target, err := openObject(rule)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil
	case err != nil:
		return fmt.Errorf("check host path %q against %q: %w", raw, rule, err)
	}
	defer target.file.Close()
	if target.id == o.id {
		return f.deniedBy(raw, o.path, rule, "it is")
	}
	at, _, err := mounts.placeOf(target)
	if err != nil {
		return fmt.Errorf("check host path %q against %q: %w", raw, rule, err)
	}
	for _, m := range shown {
		if how := relation(m.shows, at, place.within); how != "" {
			return f.deniedBy(raw, o.path, rule, "through the mount at "+strconv.Quote(m.point)+" "+how)
		}
	}
	return nil
}

// admit finds the allowed directory that really holds o. An allowed directory may itself
// be a link: the operator who allowed it means its target.
func (f *Fence) admit(raw string, o *object) (string, error) {
	for _, dir := range f.allow {
		root, err := openObject(dir)
		if err != nil {
			continue // an allowed directory that is not there holds nothing
		}
		inside := Within(o.path, root.path)
		if err := root.file.Close(); err != nil {
			return "", err
		}
		if inside {
			return dir, nil
		}
	}
	return "", f.outside(raw, o.path, "a symbolic link leads outside")
}

// shownBy lists what someone who gets o sees: o itself, as if it were a mount of its own,
// and every mount below it.
func (t mountTable) shownBy(o *object) ([]mount, error) {
	at, m, err := t.placeOf(o)
	if err != nil {
		return nil, err
	}
	m.shows = at
	shown := []mount{m}
	for _, id := range slices.Sorted(maps.Keys(t)) {
		below := t[id]
		if below.point != o.path && Within(below.point, o.path) {
			shown = append(shown, below)
		}
	}
	return shown, nil
}

// rules are the paths that access must keep away from.
func (f *Fence) rules(access Access) []string {
	if access == Write {
		return slices.Concat(f.deny, f.readOnly)
	}
	return f.deny
}

// relation words how a stands to b, or is "" when they have nothing in common.
func relation[T comparable](a, b T, within func(a, b T) bool) string {
	switch {
	case a == b:
		return "it is"
	case within(a, b):
		return "it lies beneath"
	case within(b, a):
		return "it contains"
	}
	return ""
}

func (f *Fence) deniedBy(raw, resolved, rule, how string) error {
	why := "which no task may touch: use another directory"
	if slices.Contains(f.readOnly, rule) {
		why = "which tasks may only read: make the volume read_only"
	}
	return &DeniedError{Path: raw, Resolved: resolved, Rule: rule, Reason: fmt.Sprintf("%s %q, %s", how, rule, why)}
}

func (f *Fence) outside(raw, resolved, how string) error {
	quoted := make([]string, len(f.allow))
	for i, dir := range f.allow {
		quoted[i] = strconv.Quote(dir)
	}
	return &DeniedError{Path: raw, Resolved: resolved, Reason: fmt.Sprintf(
		"%s the directories allowed on this node (%s): use one of these, or have the operator add it to volumes.allow in the agent's configuration",
		how, strings.Join(quoted, ", "))}
}
