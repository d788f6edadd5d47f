package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"syscall"
	"time"
)

// Bounds of one probe. A run that keeps 100 checkpoints of 1000 shards each fits.
const (
	maxEntries = 200_000
	maxBytes   = 256 << 20

	maxSmallText = 4 << 10
	maxJSON      = 32 << 20 // trainer_state.json logs every step
)

// ErrTooLarge says that a probe was given up at its bounds.
var ErrTooLarge = fmt.Errorf("checkpoint directory is too large to probe: more than %d entries or %d MiB to read", maxEntries, maxBytes>>20)

// budget is what one probe may still spend. It carries the probe's context, which lives
// exactly as long.
type budget struct {
	ctx     context.Context
	entries int
	bytes   int64
}

func newBudget(ctx context.Context) *budget {
	return &budget{ctx: ctx, entries: maxEntries, bytes: maxBytes}
}

func (b *budget) spend(entries int, bytes int64) error {
	b.entries -= entries
	b.bytes -= bytes
	if b.entries < 0 || b.bytes < 0 {
		return ErrTooLarge
	}
	return b.ctx.Err()
}

// aborts tells the end of the whole probe from a fault of one checkpoint.
func aborts(err error) bool {
	return errors.Is(err, ErrTooLarge) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// dir is a listed directory. All names are single components of the listing, so that no
// link is followed: os.Root keeps every access inside, and entries that are links are
// neither files nor directories here.
type dir struct {
	root    *os.Root
	path    string // relative to the probed directory
	budget  *budget
	entries map[string]fs.FileMode // type bits
}

// openDir lists root, which stays the caller's to close.
func openDir(root *os.Root, rel string, b *budget) (*dir, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	d := &dir{root: root, path: rel, budget: b, entries: make(map[string]fs.FileMode)}
	for {
		batch, err := f.ReadDir(1024)
		for _, e := range batch {
			d.entries[e.Name()] = e.Type()
		}
		if errors.Is(err, io.EOF) {
			return d, f.Close()
		}
		if err := errors.Join(err, b.spend(len(batch), 0)); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
}

// in runs fn in the sub-directory name.
func (d *dir) in(name string, fn func(*dir) error) error {
	if !d.hasDir(name) {
		return d.missing(name, "directory")
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return err
	}
	sub, err := openDir(root, path.Join(d.path, name), d.budget)
	if err == nil {
		err = fn(sub)
	}
	return errors.Join(err, root.Close())
}

func (d *dir) hasDir(name string) bool {
	mode, ok := d.entries[name]
	return ok && mode.IsDir()
}

func (d *dir) hasFile(name string) bool {
	mode, ok := d.entries[name]
	return ok && mode.IsRegular()
}

// missing words why name is not what was looked for.
func (d *dir) missing(name, kind string) error {
	mode, ok := d.entries[name]
	switch {
	case !ok:
		return fmt.Errorf("%s %q is missing", kind, name)
	case mode&fs.ModeSymlink != 0:
		return fmt.Errorf("%q is a symbolic link, which is not followed", name)
	}
	return fmt.Errorf("%q is no %s", name, kind)
}

// names are the entries in order.
func (d *dir) names() []string { return slices.Sorted(maps.Keys(d.entries)) }

// file is an open regular file.
type file struct {
	*os.File
	size   int64
	mtime  time.Time
	budget *budget
}

func (d *dir) open(name string) (*file, error) {
	if !d.hasFile(name) {
		return nil, d.missing(name, "file")
	}
	if err := d.budget.spend(1, 0); err != nil {
		return nil, err
	}
	// Nonblocking, in case a pipe has taken the name since it was listed.
	f, err := d.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = d.missing(name, "regular file")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &file{File: f, size: info.Size(), mtime: info.ModTime(), budget: d.budget}, nil
}

// inFile runs fn on the file name.
func (d *dir) inFile(name string, fn func(*file) error) error {
	f, err := d.open(name)
	if err != nil {
		return err
	}
	if err := errors.Join(fn(f), f.Close()); err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	return nil
}

// read returns the content of a file of at most limit bytes.
func (d *dir) read(name string, limit int64) (data []byte, err error) {
	err = d.inFile(name, func(f *file) error {
		if f.size > limit {
			return fmt.Errorf("%d bytes, more than the %d expected", f.size, limit)
		}
		data, err = f.at(0, f.size)
		return err
	})
	return data, err
}

// ReadAt reads within the budget.
func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.budget.spend(0, int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.ReadAt(p, off)
}

// at reads n bytes at off.
func (f *file) at(off, n int64) ([]byte, error) {
	if n < 0 || off < 0 || off+n > f.size {
		return nil, fmt.Errorf("%d bytes at %d lie outside the file", n, off)
	}
	buf := make([]byte, n)
	if _, err := f.ReadAt(buf, off); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return buf, nil
}

// hasContent checks that name is a file and not empty.
func (d *dir) hasContent(name string) error {
	if !d.hasFile(name) {
		return d.missing(name, "file")
	}
	size, _, err := d.sizeAndTime(name)
	if err == nil && size == 0 {
		err = fmt.Errorf("%q is empty", name)
	}
	return err
}

// exists tells whether there is anything at name, which may lie one directory down, so
// that many checkpoints can be sorted without listing each. The error ends the probe.
func (d *dir) exists(name string) (bool, error) {
	_, _, err := d.sizeAndTime(name)
	if aborts(err) {
		return false, err
	}
	return err == nil, nil
}

// sizeAndTime looks at an entry without opening it.
func (d *dir) sizeAndTime(name string) (int64, time.Time, error) {
	if err := d.budget.spend(1, 0); err != nil {
		return 0, time.Time{}, err
	}
	info, err := d.root.Lstat(name)
	if err != nil {
		return 0, time.Time{}, err
	}
	return info.Size(), info.ModTime(), nil
}
