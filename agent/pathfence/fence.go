package pathfence

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// maxPath is the kernel's PATH_MAX without its final NUL.
const maxPath = 4095

// builtinDeny is denied on every node. "/" needs no entry, it contains all the others;
// nor do the daemons' sockets, which lie in /run (and no socket passes anywhere).
// A daemon's data moved elsewhere is found through these names if a link or bind mount
// keeps them, else its root belongs in Config.Deny.
var builtinDeny = []string{
	"/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/root", "/run", "/sbin", "/sys", "/usr",
	"/var/run", "/var/spool/cron",
	"/var/lib/docker", "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet",
}

// DefaultAllow are the places the file system hierarchy standard keeps for data that
// belongs to neither the system nor a person. Not /home, which holds login keys; not /opt,
// which holds programs others run; not /tmp, which holds other programs' sockets; and
// nothing in /var/lib, where daemons keep what only they may change.
func DefaultAllow() []string { return []string{"/data", "/mnt", "/srv"} }

// Access is what is wanted of a path.
type Access int

// The kinds of access.
const (
	Read  Access = iota // a read-only mount, a listing, a download from the node
	Write               // everything else
)

// Config is where the fence stands.
type Config struct {
	Allow         []string // directories tasks may use
	AllowReadOnly []string // directories tasks may only read, such as a shared model cache
	Deny          []string // besides the built-in ones: the agent's key and state, the daemon's data root
}

// Fence checks paths. It has no state but its rules, and may be used from any goroutine.
type Fence struct {
	allow    []string // Allow and AllowReadOnly
	readOnly []string
	deny     []string
}

// New checks the configuration and returns all that is wrong with it.
func New(cfg Config) (*Fence, error) {
	f := &Fence{
		allow:    slices.Concat(cfg.Allow, cfg.AllowReadOnly),
		readOnly: slices.Clone(cfg.AllowReadOnly),
		deny:     slices.Concat(builtinDeny, cfg.Deny),
	}
	var errs []error
	for _, list := range [][]string{f.allow, f.readOnly, f.deny} {
		for i, dir := range list {
			clean, err := cleanPath(dir)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			list[i] = clean
		}
	}
	for _, dir := range f.allow {
		if dir == "/" {
			errs = append(errs, errors.New(`allowed directory "/" is the whole host: name the directories tasks need`))
		}
		for _, denied := range f.deny {
			if Within(dir, denied) {
				errs = append(errs, fmt.Errorf("allowed directory %q is or lies beneath %q, which no task may touch", dir, denied))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return f, nil
}

// Denying returns the same fence with one more denied directory, whose path must be clean
// and absolute.
func (f *Fence) Denying(dir string) *Fence {
	return &Fence{allow: f.allow, readOnly: f.readOnly, deny: append(slices.Clip(slices.Clone(f.deny)), dir)}
}

// Resolved is a path that passed.
type Resolved struct {
	Path string   `json:"path"` // absolute and without links: hand this one to the daemon
	Root string   `json:"root"` // the allowed directory that holds it, as configured
	Dir  bool     `json:"dir"`  // a directory; else a regular file
	ID   Identity `json:"id"`   // until the next boot
}

// Check looks at path and returns what it really is. Errors: *DeniedError, *MissingError
// (only for a path inside the fence), ErrChanged, or what the kernel said.
func (f *Fence) Check(path string, access Access) (Resolved, error) {
	file, resolved, err := f.open(path, access)
	if err != nil {
		return Resolved{}, err
	}
	return resolved, file.Close()
}

// cleanPath accepts absolute paths only, and refuses what no honest task sends.
func cleanPath(raw string) (string, error) {
	bad := func(reason string) (string, error) { return "", &DeniedError{Path: raw, Reason: reason} }
	switch {
	case !strings.HasPrefix(raw, "/"):
		return bad("it is not absolute")
	case strings.ContainsRune(raw, 0):
		return bad("it holds a NUL byte")
	case len(raw) > maxPath:
		return bad(fmt.Sprintf("it is longer than %d bytes", maxPath))
	case slices.Contains(strings.Split(raw, "/"), ".."):
		return bad(`it holds ".."`)
	}
	return path.Clean(raw), nil
}

// Within tells whether p is dir or lies beneath it. Both are clean.
func Within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

func withinAny(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return Within(p, dir) })
}
