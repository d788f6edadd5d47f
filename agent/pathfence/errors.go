package pathfence

import (
	"errors"
	"fmt"
	"io/fs"
)

// ErrChanged says that a path no longer leads to what was checked. Somebody is changing
// the directories above it; trying again is safe.
var ErrChanged = errors.New("host path changed while it was used")

// DeniedError says that a path is not for tasks. Its text tells the operator why and what
// to change.
type DeniedError struct {
	Path     string // as it was asked for
	Resolved string // what it really is, if it was looked at
	Rule     string // the denied directory or file system type that decided; empty: none of the allowed ones holds it
	Reason   string
}

// Error says which path is denied and why.
func (e *DeniedError) Error() string {
	really := ""
	if e.Resolved != "" && e.Resolved != e.Path {
		really = fmt.Sprintf(" (really %q)", e.Resolved)
	}
	return fmt.Sprintf("host path %q%s is not for tasks: %s", e.Path, really, e.Reason)
}

// MissingError says that a path inside the fence does not exist. It matches fs.ErrNotExist.
type MissingError struct {
	Path string
}

// Error says what to do about it.
func (e *MissingError) Error() string {
	return fmt.Sprintf("host path %q does not exist on this node: create it or correct the task; the agent never creates mount sources", e.Path)
}

// Is makes errors.Is(err, fs.ErrNotExist) true.
func (e *MissingError) Is(target error) bool { return target == fs.ErrNotExist }
