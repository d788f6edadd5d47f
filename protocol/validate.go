package protocol

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
)

// Limits of what Validate accepts.
const (
	MaxNameBytes        = 256
	MaxImageBytes       = 512       // name 255, tag 128, digest, and room for a registry
	MaxStrings          = 1024      // entries of command, args and env
	MaxStringBytes      = 128 << 10 // MAX_ARG_STRLEN of Linux: execve refuses a longer string
	MaxPathBytes        = 4095      // PATH_MAX less the final NUL
	MaxVolumes          = 64
	MaxPorts            = 128
	MaxDevices          = 64
	MaxSlices           = 64
	MaxLabels           = 64
	MaxLabelKeyBytes    = 128
	MaxLabelValueBytes  = 4096
	MaxCredentialBytes  = 64 << 10
	MaxTimeoutSeconds   = 366 * 24 * 3600
	MaxStopGraceSeconds = 3600
	MaxCPUs             = 1 << 16
	MaxPIDs             = 1 << 22 // PID_MAX_LIMIT of Linux
)

// ReservedLabelPrefix starts the labels by which an agent finds its
// containers again; a task may not set them.
const ReservedLabelPrefix = "io.heteroflow."

// FieldError is one problem of one field.
type FieldError struct {
	Field   string // JSON name with indexes: env[2], volumes[0].container_path
	Problem string // what is wrong; never the value of an env entry or a credential
}

func (e FieldError) Error() string { return e.Field + ": " + e.Problem }

// FieldErrors returns every FieldError within err, in the order in which they
// were found.
func FieldErrors(err error) []FieldError {
	switch e := err.(type) { //nolint:errorlint // walks the whole tree, As stops at the first
	case FieldError:
		return []FieldError{e}
	case interface{ Unwrap() error }:
		return FieldErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		var found []FieldError
		for _, sub := range e.Unwrap() {
			found = append(found, FieldErrors(sub)...)
		}
		return found
	default:
		return nil
	}
}

// ValidTaskID reports whether id can name a task or a request, and with it a
// container.
func ValidTaskID(id string) bool { return validID(id, 63) }

// ValidNodeID reports whether id can name a node.
func ValidNodeID(id string) bool { return validID(id, 128) }

func validID(id string, longest int) bool {
	if id == "" || len(id) > longest {
		return false
	}
	for i := range len(id) {
		c := id[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || !strings.ContainsRune("_.-", rune(c))) {
			return false
		}
	}
	return true
}

// problems collects what is wrong with one value.
type problems struct{ errs []error }

func (p *problems) add(field, format string, args ...any) {
	p.errs = append(p.errs, FieldError{Field: field, Problem: fmt.Sprintf(format, args...)})
}

func (p *problems) join() error { return errors.Join(p.errs...) }

// text checks a string that may be empty. Its value is never repeated.
func (p *problems) text(field, s string, longest int) {
	if len(s) > longest {
		p.add(field, "is %d bytes long, at most %d are allowed", len(s), longest)
	}
	if strings.ContainsRune(s, 0) {
		p.add(field, "contains a NUL byte")
	}
}

// line is text without control characters: a name, a reference, a header
// value.
func (p *problems) line(field, s string, longest int) {
	p.text(field, s, longest)
	if strings.ContainsFunc(s, func(r rune) bool { return r != 0 && unicode.IsControl(r) }) {
		p.add(field, "contains a control character")
	}
}

// count reports whether a list is short enough to be looked at item by item.
func (p *problems) count(field string, n, most int) bool {
	if n > most {
		p.add(field, "has %d entries, at most %d are allowed", n, most)
		return false
	}
	return true
}

// absolutePath checks a path that must be given.
func (p *problems) absolutePath(field, s string) {
	p.line(field, s, MaxPathBytes)
	switch {
	case s == "":
		p.add(field, "is missing")
	case !path.IsAbs(s):
		p.add(field, "is not an absolute path: %q", clip(s))
	case path.Clean(s) != s:
		p.add(field, "is not a clean path: %q, clean is %q", clip(s), clip(path.Clean(s)))
	}
}

// within checks a number against inclusive bounds.
func within[N int | int64 | float64](p *problems, field string, n, least, most N) {
	if n < least || n > most || n != n { // only NaN differs from itself
		p.add(field, "is %v, must be %v to %v", n, least, most)
	}
}

// word checks an enumeration that may be absent.
func word[W interface {
	~string
	Known() bool
}](p *problems, field string, w W, known []W) {
	if w != "" && !w.Known() {
		p.add(field, "is %q, known are %v", clip(string(w)), known)
	}
}

// clip shortens outside text for a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
