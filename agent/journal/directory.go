package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/heteroflow/node-agent/crashpoint"
)

const (
	dirPerm  = 0o700
	filePerm = 0o600

	recordSuffix = ".json"
	timeFormat   = "20060102T150405Z" // sorts by time, no character a shell minds
)

// directory does the file work of one collection, all of it beneath its root.
type directory struct {
	root *os.Root
}

// openDirectory opens, and if need be creates, the directory name beneath parent.
func openDirectory(parent *os.Root, name string) (directory, error) {
	err := parent.Mkdir(name, dirPerm)
	switch {
	case err == nil:
		if err := syncDir(parent); err != nil {
			return directory{}, err
		}
	case !errors.Is(err, fs.ErrExist):
		return directory{}, err
	}
	root, err := parent.OpenRoot(name)
	if err != nil {
		return directory{}, err
	}
	return directory{root: root}, nil
}

// write puts data under name so that a crash leaves the old content or the new. The order
// is the guarantee: the bytes are on disk before the name points at them, and the name is
// on disk before write returns.
func (d directory) write(name string, data []byte) (err error) {
	f, err := renameio.NewPendingFile(name, renameio.WithRoot(d.root), renameio.WithStaticPermissions(filePerm))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Cleanup()) }()
	if _, err := f.Write(data); err != nil {
		return err
	}
	crashpoint.Reach("journal: written")
	if err := f.CloseAtomicallyReplace(); err != nil {
		return err
	}
	crashpoint.Reach("journal: named")
	return syncDir(d.root)
}

// remove deletes name durably; a missing file is removed already.
func (d directory) remove(name string) error {
	if err := d.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return syncDir(d.root)
}

// read returns the content of a regular file of at most limit bytes.
func (d directory) read(name string, limit int) ([]byte, error) {
	info, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("not a regular file but %v", info.Mode().Type())
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(data) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return data, nil
}

// list returns the names of the records, and of the temporary files that a write left
// behind when it was cut off. Quarantined files and strangers are in neither.
func (d directory) list() (records, leftovers []string, err error) {
	entries, err := fs.ReadDir(d.root.FS(), ".")
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "."):
			leftovers = append(leftovers, name)
		case strings.HasSuffix(name, recordSuffix):
			records = append(records, name)
		}
	}
	return records, leftovers, nil
}

// setAside renames name, whatever it is, to name.corrupt-<now> and returns the new name.
func setAside(root *os.Root, name string, now time.Time) (string, error) {
	to := freeName(root, name+".corrupt-"+now.UTC().Format(timeFormat))
	if err := root.Rename(name, to); err != nil {
		return "", err
	}
	return to, syncDir(root)
}

// freeName is name, or name with the first counter that is not taken: rename(2) would
// replace an earlier piece of evidence.
func freeName(root *os.Root, name string) string {
	for i, try := 2, name; ; i++ {
		if _, err := root.Lstat(try); err != nil {
			return try
		}
		try = fmt.Sprintf("%s-%d", name, i)
	}
}

// syncDir makes the directory's entries durable.
func syncDir(root *os.Root) error {
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
