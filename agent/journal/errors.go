package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// The errors a caller decides by.
var (
	// ErrNotDurable: the change is made in memory and answers reads, but it is not on the
	// disk: a restart now would lose it. Matches together with ErrNoSpace or ErrReadOnly
	// where that is the cause. Flush tries again.
	ErrNotDurable = errors.New("kept in memory only")
	// ErrNoSpace: the disk or the quota is used up, bytes or inodes.
	ErrNoSpace = errors.New("no space in the state directory")
	// ErrReadOnly: the state directory cannot be written.
	ErrReadOnly = errors.New("state directory is not writable")
	// ErrFull: the collection holds its limit of records and none is settled.
	ErrFull = errors.New("collection is full of unsettled records")
	// ErrInvalidKey: the key is no single, plain path component.
	ErrInvalidKey = errors.New("invalid key")
	// ErrTooLarge: the record is larger than the collection allows.
	ErrTooLarge = errors.New("record too large")
	// ErrClosed: the journal was closed.
	ErrClosed = errors.New("journal is closed")
)

// LockedError says that another process uses the state directory.
type LockedError struct {
	Dir string
	PID int // of the holder; 0 when it could not be learnt
}

// Error tells the operator who holds the directory.
func (e *LockedError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("the process with pid %d", e.PID)
	}
	return fmt.Sprintf("state directory %s is in use by %s: stop that agent first, or give this one its own state_dir", e.Dir, holder)
}

// classify puts the class of a file error in front of it.
func classify(err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	return err
}
