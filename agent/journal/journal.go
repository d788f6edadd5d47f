package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/heteroflow/node-agent/agent/wallclock"
)

// Kind names a collection and its directory.
type Kind string

// The collections. A kind that is not listed here would stay behind when foreign state is
// set aside, so NewCollection takes no other.
const (
	Results Kind = "results"
	Slices  Kind = "slices"
	Tasks   Kind = "tasks"
	Node    Kind = "node"
	GPUs    Kind = "gpus"

	operator Kind = "operator"
	machine  Kind = "machine"
)

// kinds is in the order in which foreign state is moved: the identity last, so that a
// crash half-way finds the rest still foreign.
var kinds = []Kind{Results, Slices, Tasks, Node, GPUs, operator, machine}

// Options are what Open needs to know.
type Options struct {
	// MachineID tells machines apart, as /etc/machine-id does. Empty means that it could
	// not be learnt: the state is then kept and used, unverified.
	MachineID string
	// Now is the clock for file names and saved_at; nil is wallclock.Now.
	Now func() time.Time
	// Log receives what was set aside or dropped; nil logs nothing.
	Log *zap.Logger
}

// Quarantine is a file that was set aside in this run.
type Quarantine struct {
	Path   string // where it lies now, or its old place if it could not be moved
	Reason string
	At     time.Time
}

// flusher is a collection of any record type.
type flusher interface {
	flush() error
	unsaved() int
	close() error
}

// Journal is an open state directory, held by this process alone. Its methods may be
// called from any goroutine.
type Journal struct {
	dir  string
	now  func() time.Time
	log  *zap.Logger
	root *os.Root
	lock *os.File

	mu          sync.Mutex
	collections map[Kind]flusher
	quarantined []Quarantine
	foreign     string
	closed      bool
}

// Open creates or opens the state directory, takes its lock and checks whose state it is.
// Errors: *LockedError when another process holds it; ErrNoSpace or ErrReadOnly when it
// cannot be created, or when another machine's state in it cannot be set aside.
func Open(dir string, opts Options) (*Journal, error) {
	j := &Journal{dir: dir, now: opts.Now, log: opts.Log, collections: make(map[Kind]flusher)}
	if j.now == nil {
		j.now = wallclock.Now
	}
	if j.log == nil {
		j.log = zap.NewNop()
	}
	j.log = j.log.With(zap.String("state_dir", dir))
	if err := os.MkdirAll(dir, dirPerm); err != nil {
		return nil, fmt.Errorf("create state directory: %w", classify(err))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open state directory: %w", classify(err))
	}
	j.root = root
	if j.lock, err = lockDir(root, dir); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	j.settle()
	if err := j.identify(opts.MachineID); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// settle does what is good to have but not worth refusing to start for, as on a
// read-only disk.
func (j *Journal) settle() {
	if info, err := j.root.Stat("."); err == nil && info.Mode().Perm() != dirPerm {
		if err := j.root.Chmod(".", dirPerm); err != nil {
			j.log.Warn("state directory is open to other users", zap.Error(err))
		}
	}
	if parent, err := os.OpenRoot(filepath.Dir(filepath.Clean(j.dir))); err == nil {
		// The directory's own name must survive a power loss too.
		if err := errors.Join(syncDir(parent), parent.Close()); err != nil {
			j.log.Warn("state directory may not survive a power loss", zap.Error(err))
		}
	}
	if err := j.root.WriteFile(pidFile, fmt.Appendln(nil, os.Getpid()), filePerm); err != nil {
		j.log.Warn("pid file not written", zap.Error(classify(err)))
	}
}

// Dir is the state directory's path.
func (j *Journal) Dir() string { return j.dir }

// Foreign is where the state of another machine was moved in this run, or "".
func (j *Journal) Foreign() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.foreign
}

// Quarantined lists what was set aside in this run. Files of earlier runs stay on disk
// until the operator removes them, but are not listed.
func (j *Journal) Quarantined() []Quarantine {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.quarantined)
}

// Unsaved counts the changes that are in memory only.
func (j *Journal) Unsaved() int {
	n := 0
	for _, c := range j.all() {
		n += c.unsaved()
	}
	return n
}

// Flush tries again to write what could not be written. Its error matches ErrNotDurable
// if something still could not.
func (j *Journal) Flush() error {
	var errs []error
	for _, c := range j.all() {
		errs = append(errs, c.flush())
	}
	return errors.Join(errs...)
}

// Close gives up the lock. It does not flush; records in memory stay readable.
func (j *Journal) Close() error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return nil
	}
	j.closed = true
	j.mu.Unlock()
	var errs []error
	for _, c := range j.all() {
		errs = append(errs, c.close())
	}
	return errors.Join(append(errs, j.root.Close(), j.lock.Close())...)
}

func (j *Journal) all() []flusher {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []flusher
	for _, kind := range kinds {
		if c, ok := j.collections[kind]; ok {
			all = append(all, c)
		}
	}
	return all
}

func (j *Journal) register(kind Kind, c flusher) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	if !slices.Contains(kinds, kind) {
		return fmt.Errorf("open collection %q: not one of %q", kind, kinds)
	}
	if _, ok := j.collections[kind]; ok {
		return fmt.Errorf("open collection %s: already open", kind)
	}
	j.collections[kind] = c
	return nil
}

// forget closes a collection so that it can be opened anew.
func (j *Journal) forget(kind Kind) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.collections[kind]
	delete(j.collections, kind)
	return c.close()
}

// quarantine sets root's entry name aside. path is where root lies in the state directory.
func (j *Journal) quarantine(root *os.Root, path, name string, reason error) {
	now := j.now()
	q := Quarantine{Path: filepath.Join(j.dir, path, name), Reason: reason.Error(), At: now}
	to, err := setAside(root, name, now)
	if err != nil {
		j.log.Error("damaged state file ignored, could not be set aside",
			zap.String("file", q.Path), zap.String("reason", q.Reason), zap.Error(classify(err)))
	} else {
		q.Path = filepath.Join(j.dir, path, to)
		j.log.Error("damaged state file set aside",
			zap.String("file", filepath.Join(path, name)), zap.String("now_at", q.Path), zap.String("reason", q.Reason))
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.quarantined = append(j.quarantined, q)
}
