package pathfence

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// OpenRoot opens the directory to do file work at path: path itself if it is a directory,
// else the nearest directory above it that exists. rel is the way from there to path, "."
// for path itself. Nothing denied lies below the root, and it cannot be left through links.
// To delete or replace a directory, open the root of its parent. The caller closes it.
// Errors are those of Check; a path whose allowed directory is missing is a *MissingError.
func (f *Fence) OpenRoot(raw string, access Access) (root *os.Root, rel string, err error) {
	dir, rel := raw, "."
	for {
		root, err := f.openDir(dir, access)
		if err == nil {
			return root, rel, nil
		}
		parent := path.Dir(path.Clean(dir))
		if !errors.As(err, new(*MissingError)) && !errors.Is(err, errNotDir) || !withinAny(parent, f.allow) {
			return nil, "", err
		}
		dir, rel = parent, path.Join(path.Base(path.Clean(dir)), rel)
	}
}

var errNotDir = errors.New("not a directory")

func (f *Fence) openDir(dir string, access Access) (*os.Root, error) {
	file, resolved, err := f.open(dir, access)
	if err != nil {
		return nil, err
	}
	defer file.Close() // held until here so that the inode is not reused
	if !resolved.Dir {
		return nil, fmt.Errorf("open host path %q: %w", dir, errNotDir)
	}
	root, err := os.OpenRoot(resolved.Path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChanged, err)
	}
	if err := resolved.sameAs(root, "."); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// Verify checks that Path still leads to what was checked. The error matches ErrChanged.
func (r Resolved) Verify() error { return r.ID.expect(r.Path) }

// VerifyIn checks that a container got what was checked: root is its root directory seen
// from outside, /proc/<pid>/root, and target the path it was mounted at. The error matches
// ErrChanged, also when target cannot be followed inside root.
func (r Resolved) VerifyIn(root, target string) error {
	inside, err := os.OpenRoot(root)
	if err != nil {
		return fmt.Errorf("verify mount at %s: %w", target, err)
	}
	defer inside.Close() //nolint:errcheck // nothing is written through it
	return r.sameAs(inside, filepath.Clean(strings.TrimLeft(target, "/")))
}

func (r Resolved) sameAs(root *os.Root, name string) error {
	info, err := root.Stat(name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || (Identity{Dev: st.Dev, Ino: st.Ino}) != r.ID {
		return fmt.Errorf("%w: %s is another object now", ErrChanged, filepath.Join(root.Name(), name))
	}
	return nil
}
