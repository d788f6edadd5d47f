package pathfence

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxMountinfo bounds what is read of /proc/self/mountinfo: about 100 000 mounts.
const maxMountinfo = 16 << 20

// kernelTypes are file systems that show the kernel or its devices wherever they are
// mounted. Since Linux 5.8 each mount of proc is a file system of its own, so comparing
// places does not find them.
var kernelTypes = map[string]bool{
	"proc": true, "sysfs": true, "devtmpfs": true, "devpts": true, "cgroup": true, "cgroup2": true,
	"debugfs": true, "tracefs": true, "securityfs": true, "configfs": true, "efivarfs": true,
	"bpf": true, "pstore": true, "binfmt_misc": true, "nsfs": true, "selinuxfs": true,
}

// place is a directory or file by where it lies on its file system, the same through
// whichever mount it is reached.
type place struct {
	dev  string // major:minor of the file system
	path string // from the file system's root
}

func (p place) within(dir place) bool { return p.dev == dir.dev && Within(p.path, dir.path) }

// mount is a line of mountinfo.
type mount struct {
	id     int
	shows  place
	point  string
	fsType string
}

type mountTable map[int]mount

func readMounts() (mountTable, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxMountinfo+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxMountinfo {
		return nil, fmt.Errorf("mountinfo is larger than %d bytes", maxMountinfo)
	}
	return parseMounts(data)
}

// parseMounts reads the format of proc_pid_mountinfo(5):
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
func parseMounts(data []byte) (mountTable, error) {
	table := make(mountTable)
	for line := range bytes.Lines(data) {
		left, right, ok := strings.Cut(strings.TrimSuffix(string(line), "\n"), " - ")
		fields := strings.Split(left, " ")
		fsType, _, _ := strings.Cut(right, " ")
		if !ok || len(fields) < 6 || fsType == "" {
			return nil, fmt.Errorf("mountinfo line %q is not understood", line)
		}
		id, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("mountinfo line %q: %w", line, err)
		}
		table[id] = mount{
			id:     id,
			shows:  place{dev: fields[2], path: path.Clean(unescape(fields[3]))},
			point:  path.Clean(unescape(fields[4])),
			fsType: fsType,
		}
	}
	return table, nil
}

// unescape undoes the octal escapes of space, tab, newline and backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if code, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// MountsBelow lists the mount points that show below a directory that passed, outer ones
// first.
func (r Resolved) MountsBelow() ([]string, error) {
	mounts, err := readMounts()
	if err != nil {
		return nil, fmt.Errorf("look for mounts below %q: %w", r.Path, err)
	}
	var points []string
	for id, m := range mounts {
		if m.point == r.Path || !Within(m.point, r.Path) {
			continue
		}
		o, err := openObject(m.point)
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
			continue // another mount lies over it
		case err != nil:
			return nil, fmt.Errorf("look at the mount at %q: %w", m.point, err)
		}
		shows := o.mount == id
		if err := o.file.Close(); err != nil {
			return nil, err
		}
		if shows {
			points = append(points, m.point)
		}
	}
	slices.Sort(points)
	return points, nil
}

// placeOf says where o lies on its file system.
func (t mountTable) placeOf(o *object) (place, mount, error) {
	m, ok := t[o.mount]
	if !ok || !Within(o.path, m.point) {
		return place{}, mount{}, fmt.Errorf("%w: %s: its mount is not in mountinfo", ErrChanged, o.path)
	}
	rest := strings.TrimPrefix(o.path, strings.TrimSuffix(m.point, "/"))
	return place{dev: m.shows.dev, path: path.Join(m.shows.path, rest)}, m, nil
}
