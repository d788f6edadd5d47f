// Package hostfs is the host's file system as CDI specs need it: a path means one file to
// this process, which may see the host's root in a directory of its own, and to the
// container engine, which may do so, too.
//
// Names are the host's unless it is said that they are the engine's. Links are followed
// inside the host's root and never lead out of it. The file system's errors are given
// without paths: this process's are not the host's, which who reads the message knows. It
// only reads, and starts no goroutine.
package hostfs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/symlink"
)

// FS is a host's file system. The zero value is right for a process on the host.
type FS struct {
	Root       string // where this process sees it; "" means "/"
	EngineRoot string // where the container engine sees it; "" means "/"
	// Nodes says what the device node at one of this process's paths stands for; nil asks
	// the kernel. Tests set it, which cannot make the nodes of a vendor's driver.
	Nodes func(path string) (Node, error)
}

func (h FS) root() string { return filepath.Clean(cmp.Or(h.Root, "/")) }

// at is where this process finds the host's file name.
func (h FS) at(name string) string { return filepath.Join(h.root(), name) }

// toEngine is how the engine calls the host's file name.
func (h FS) toEngine(name string) string { return path.Join("/", h.EngineRoot, name) }

// fromEngine is where this process finds what the engine calls name.
func (h FS) fromEngine(name string) string {
	return h.at(strings.TrimPrefix(name, path.Join("/", h.EngineRoot)))
}

// EngineFile describes the file that the engine calls name.
func (h FS) EngineFile(name string) (fs.FileInfo, error) {
	info, err := os.Stat(h.fromEngine(name))
	return info, plain(err)
}

// Follow returns the path without links of a file that exists.
func (h FS) Follow(name string) (string, error) {
	found, err := symlink.FollowSymlinkInScope(h.at(name), h.root())
	if err == nil {
		_, err = os.Lstat(found)
	}
	if err != nil {
		return "", plain(err)
	}
	return path.Join("/", strings.TrimPrefix(found, h.root())), nil
}

// List returns the names in a directory that match one of the patterns.
func (h FS) List(dir string, patterns ...string) ([]string, error) {
	found, err := h.Follow(dir)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(h.at(found))
	if err != nil {
		return nil, plain(err)
	}
	var names []string
	for _, e := range entries {
		if slices.ContainsFunc(patterns, func(p string) bool { ok, err := path.Match(p, e.Name()); return ok && err == nil }) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// maxRead is far above the largest file that is read, a Jetson's list of 30 KiB.
const maxRead = 1 << 20

// Read returns the content of a small file.
func (h FS) Read(name string) ([]byte, error) {
	f, err := os.Open(h.at(name))
	if err != nil {
		return nil, plain(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	switch {
	case err != nil:
		return nil, plain(err)
	case len(data) > maxRead:
		return nil, fmt.Errorf("larger than %d bytes", maxRead)
	}
	return data, nil
}

// plain takes the path out of a file system's error.
func plain(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
