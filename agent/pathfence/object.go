package pathfence

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Identity tells files apart while at least one of their names or descriptors is held.
type Identity struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// object is something on the host as the kernel sees it.
type object struct {
	file  *os.File // O_PATH: names the object, reads nothing of it
	path  string   // the kernel's name: absolute, no links
	id    Identity
	mode  uint32 // S_IFMT bits
	mount int    // id of the mount it was reached through
}

// openObject follows path, links and all, and says where it ended.
func openObject(path string) (*object, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	o := &object{file: os.NewFile(uintptr(fd), path)}
	if err := o.inspect(); err != nil {
		_ = o.file.Close() // nothing was written through it
		return nil, err
	}
	return o, nil
}

func (o *object) inspect() error {
	fd := int(o.file.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: o.file.Name(), Err: err}
	}
	o.id, o.mode = identityOf(&st), st.Mode&unix.S_IFMT
	var err error
	if o.path, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil {
		return err
	}
	// A name that does not lead back is one that was removed or renamed meanwhile, or that
	// never was a path, like that of a pipe.
	if err := o.id.expect(o.path); err != nil || !filepath.IsAbs(o.path) {
		return fmt.Errorf("%w: %s", ErrChanged, o.file.Name())
	}
	o.mount, err = mountID(fd)
	return err
}

func (o *object) isDir() bool { return o.mode == unix.S_IFDIR }

// kind names what a task cannot mount.
func (o *object) kind() string {
	switch o.mode {
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFBLK, unix.S_IFCHR:
		return "a device"
	case unix.S_IFIFO:
		return "a pipe"
	default:
		return "no file"
	}
}

func identityOf(st *unix.Stat_t) Identity { return Identity{Dev: st.Dev, Ino: st.Ino} }

// expect checks that path, its last component not followed, is this object.
func (id Identity) expect(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrChanged, path, err)
	}
	if identityOf(&st) != id {
		return fmt.Errorf("%w: %s is another object now", ErrChanged, path)
	}
	return nil
}

// mountID reads the id of the mount a descriptor was opened through (proc(5), fdinfo).
func mountID(fd int) (int, error) {
	name := fmt.Sprintf("/proc/self/fdinfo/%d", fd)
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "mnt_id:"); ok {
			return strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return 0, fmt.Errorf("%s has no mnt_id", name)
}
