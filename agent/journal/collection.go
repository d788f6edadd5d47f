package journal

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Defaults of Limits.
const (
	DefaultMax      = 256
	DefaultMaxBytes = 1 << 20 // 64 KiB of log tail can grow sixfold when escaped
)

// Limits bound a collection.
type Limits[T any] struct {
	Max      int // records; 0 is DefaultMax
	MaxBytes int // of one record's file; 0 is DefaultMaxBytes
	// Settled tells whether a record may be given up to make room. It must depend on its
	// argument only. Nil: none may.
	Settled func(T) bool
}

// Entry is a record with its key.
type Entry[T any] struct {
	Key     string
	Value   T
	SavedAt time.Time
}

// Collection is the records of one kind, all of them in memory and each in its own file.
// Values are copied in and out as JSON: what Get returns is what it would return after a
// restart, and changing it changes nothing here. Methods may be called from any goroutine;
// writes of one collection happen one after another.
type Collection[T any] struct {
	j      *Journal
	kind   Kind
	limits Limits[T]
	log    *zap.Logger

	mu      sync.Mutex
	files   directory // its root is nil until the directory could be opened
	records map[string]record
	dirty   map[string]struct{} // keys whose file is not what records says
	seq     uint64
	evicted uint64
	closed  bool
}

// NewCollection opens the collection kind of j and loads it. Damaged files are set aside
// first. A directory that cannot be created yet leaves an empty collection whose writes
// match ErrNotDurable; one that cannot be read is an error.
func NewCollection[T any](j *Journal, kind Kind, limits Limits[T]) (*Collection[T], error) {
	limits.Max = cmp.Or(limits.Max, DefaultMax)
	limits.MaxBytes = cmp.Or(limits.MaxBytes, DefaultMaxBytes)
	c := &Collection[T]{
		j: j, kind: kind, limits: limits, log: j.log.With(zap.String("kind", string(kind))),
		records: make(map[string]record), dirty: make(map[string]struct{}),
	}
	if err := j.register(kind, c); err != nil {
		return nil, err
	}
	if err := c.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open collection %s: %w", kind, err), j.forget(kind))
	}
	return c, nil
}

// open opens the directory and loads it, or leaves creating it to the first write that
// finds the disk able to.
func (c *Collection[T]) open() error {
	info, err := c.j.root.Lstat(string(c.kind))
	exists := err == nil
	if exists && !info.IsDir() {
		c.j.quarantine(c.j.root, "", string(c.kind), errors.New("not a directory"))
		exists = false
	}
	err = c.openFiles()
	if !exists && (errors.Is(err, ErrNoSpace) || errors.Is(err, ErrReadOnly)) {
		c.log.Warn("collection kept in memory only", zap.Error(err))
		return nil
	}
	if err != nil {
		return err
	}
	return c.load()
}

// Put stores value under key, durably when it returns nil. With ErrNotDurable it is stored
// in memory; with any other error nothing is changed.
func (c *Collection[T]) Put(key string, value T) error {
	data, err := marshalData(value)
	if err := errors.Join(validateKey(key), err); err != nil {
		return fmt.Errorf("save %s/%.80s: %w", c.kind, key, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("save %s/%s: %w", c.kind, key, ErrClosed)
	}
	old, exists := c.records[key]
	r := record{Version: recordVersion, Kind: c.kind, Key: key, Seq: old.Seq, SavedAt: c.j.now().UTC(), Data: data}
	if !exists {
		r.Seq = c.seq + 1
	}
	file, err := c.encode(r)
	if err == nil && !exists {
		err = c.makeRoom()
	}
	if err != nil {
		return fmt.Errorf("save %s/%s: %w", c.kind, key, err)
	}
	c.records[key] = r
	c.seq = max(c.seq, r.Seq)
	return c.settle(key, "save", c.writeFile(key, file))
}

// encode makes r's file, within the limit.
func (c *Collection[T]) encode(r record) ([]byte, error) {
	file, err := r.encode()
	if err == nil && len(file) > c.limits.MaxBytes {
		err = fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(file), c.limits.MaxBytes)
	}
	return file, err
}

// Get returns the record of key, and whether there is one.
func (c *Collection[T]) Get(key string) (T, bool, error) {
	c.mu.Lock()
	r, ok := c.records[key]
	c.mu.Unlock()
	var value T
	if !ok {
		return value, false, nil
	}
	if err := json.Unmarshal(r.Data, &value); err != nil {
		return value, false, fmt.Errorf("read %s/%s: %w", c.kind, key, err)
	}
	return value, true, nil
}

// Delete removes the record of key, durably when it returns nil; a missing one is fine.
// With ErrNotDurable it is gone from memory, but a restart would bring it back.
func (c *Collection[T]) Delete(key string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("delete %s/%s: %w", c.kind, key, ErrClosed)
	}
	_, known := c.records[key]
	_, unsettled := c.dirty[key]
	if !known && !unsettled {
		return nil
	}
	return c.discard(key)
}

// All returns every record, oldest first.
func (c *Collection[T]) All() ([]Entry[T], error) {
	c.mu.Lock()
	sorted := c.oldestFirst()
	c.mu.Unlock()
	entries := make([]Entry[T], len(sorted))
	for i, r := range sorted {
		entries[i] = Entry[T]{Key: r.Key, SavedAt: r.SavedAt}
		if err := json.Unmarshal(r.Data, &entries[i].Value); err != nil {
			return nil, fmt.Errorf("read %s/%s: %w", c.kind, r.Key, err)
		}
	}
	return entries, nil
}

// Len counts the records.
func (c *Collection[T]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.records)
}

// Evicted counts the settled records given up for newer ones in this run.
func (c *Collection[T]) Evicted() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.evicted
}

// makeRoom gives up settled records, oldest first, until one more fits.
func (c *Collection[T]) makeRoom() error {
	if len(c.records) < c.limits.Max {
		return nil
	}
	for _, r := range c.oldestFirst() {
		if len(c.records) < c.limits.Max {
			break
		}
		var value T
		if err := json.Unmarshal(r.Data, &value); err != nil {
			return fmt.Errorf("read %s/%s: %w", c.kind, r.Key, err)
		}
		if c.limits.Settled == nil || !c.limits.Settled(value) {
			continue
		}
		c.evicted++
		c.log.Warn("oldest settled record given up for a new one",
			zap.String("key", r.Key), zap.Int("max", c.limits.Max), zap.Uint64("evicted", c.evicted))
		if err := c.discard(r.Key); err != nil {
			c.log.Warn("file of a given up record not removed", zap.String("key", r.Key), zap.Error(err))
		}
	}
	if len(c.records) >= c.limits.Max {
		return fmt.Errorf("%w: %d, at most %d", ErrFull, len(c.records), c.limits.Max)
	}
	return nil
}

func (c *Collection[T]) oldestFirst() []record {
	return slices.SortedFunc(maps.Values(c.records), func(a, b record) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), strings.Compare(a.Key, b.Key))
	})
}

// discard removes key from memory, then its file.
func (c *Collection[T]) discard(key string) error {
	delete(c.records, key)
	return c.settle(key, "delete", c.removeFile(key))
}

// settle notes whether key's file is what memory says.
func (c *Collection[T]) settle(key, verb string, err error) error {
	if err == nil {
		delete(c.dirty, key)
		return nil
	}
	c.dirty[key] = struct{}{}
	return fmt.Errorf("%s %s/%s: %w: %w", verb, c.kind, key, ErrNotDurable, classify(err))
}

func (c *Collection[T]) openFiles() error {
	if c.files.root != nil {
		return nil
	}
	files, err := openDirectory(c.j.root, string(c.kind))
	if err != nil {
		return classify(err)
	}
	c.files = files
	return nil
}

func (c *Collection[T]) writeFile(key string, file []byte) error {
	if err := c.openFiles(); err != nil {
		return err
	}
	return c.files.write(key+recordSuffix, file)
}

func (c *Collection[T]) removeFile(key string) error {
	if err := c.openFiles(); err != nil {
		return err
	}
	return c.files.remove(key + recordSuffix)
}

func (c *Collection[T]) unsaved() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.dirty)
}

func (c *Collection[T]) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(c.dirty)) {
		r, ok := c.records[key]
		if !ok {
			errs = append(errs, c.settle(key, "delete", c.removeFile(key)))
			continue
		}
		file, err := r.encode()
		if err == nil {
			err = c.writeFile(key, file)
		}
		errs = append(errs, c.settle(key, "save", err))
	}
	return errors.Join(errs...)
}

func (c *Collection[T]) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.files.root == nil {
		return nil
	}
	return c.files.root.Close()
}
