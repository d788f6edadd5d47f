package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// minBytes is the smallest file a Writer keeps: below it, framing is all there is.
const minBytes = 4 << 10

// Writer appends to a set of rotating files. It never fails towards its caller, because
// a full disk must not stop the program whose output this is: what cannot be written is
// dropped and counted, and the count is written as a line once there is room again.
//
// It is safe for concurrent use. Writes go to the disk at once; nothing is buffered.
type Writer struct {
	path     string
	maxBytes int64
	maxFiles int
	now      func() time.Time

	mu      sync.Mutex
	file    *os.File // nil: to be opened
	size    int64    // of file, whole records only
	batch   []byte   // records not yet written, within one Write
	pending int64    // payload bytes in batch
	dropped int64    // payload bytes lost since the last marker
	cause   error    // why
}

// NewWriter keeps at most maxFiles files of maxBytes each; maxBytes below 4 KiB counts
// as 4 KiB. The file is opened by the first write.
func NewWriter(path string, maxBytes int64, maxFiles int) *Writer {
	return &Writer{path: path, maxBytes: max(maxBytes, minBytes), maxFiles: max(maxFiles, 1), now: time.Now}
}

// Write records what a program wrote to one of its streams.
func (w *Writer) Write(stream Stream, p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.now()
	if w.dropped > 0 {
		cause := strings.ReplaceAll(fmt.Sprint(w.cause), "\n", "; ")
		w.append(at, Stderr, fmt.Appendf(nil, "[%d bytes of output were dropped here: %s]\n", w.dropped, cause))
		w.pending = 0 // the marker is no output: not counted again if it is lost too
	}
	for len(p) > 0 {
		n := min(len(p), maxPayload, int(w.maxBytes)-overhead)
		if i := bytes.IndexByte(p[:n], '\n'); i >= 0 {
			n = i + 1
		}
		w.append(at, stream, p[:n])
		p = p[n:]
	}
	w.flush()
}

func (w *Writer) append(at time.Time, stream Stream, payload []byte) {
	if err := w.open(); err == nil && w.size+int64(len(w.batch)+len(payload)+overhead) > w.maxBytes {
		w.flush()
		w.rotate()
	}
	w.batch = appendRecord(w.batch, at, stream, payload)
	w.pending += int64(len(payload))
}

func (w *Writer) flush() {
	defer func() { w.batch, w.pending = w.batch[:0], 0 }()
	err := w.open()
	if err == nil {
		_, err = w.file.Write(w.batch)
	}
	if err == nil {
		w.size += int64(len(w.batch))
		w.dropped, w.cause = 0, nil
		return
	}
	if w.file != nil {
		// Half a record would garble the next one.
		err = errors.Join(err, w.file.Truncate(w.size))
	}
	w.dropped, w.cause = w.dropped+w.pending, err
}

func (w *Writer) open() error {
	if w.file != nil {
		return nil
	}
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	size, err := seal(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.file, w.size = f, size
	return nil
}

// seal ends a last line that a power loss cut short.
func seal(f *os.File) (size int64, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, err
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, info.Size()-1); err != nil || last[0] == '\n' {
		return info.Size(), err
	}
	if _, err := f.Write([]byte{'\n'}); err != nil {
		return 0, err
	}
	return info.Size() + 1, nil
}

// rotate makes room for a new file. If the files cannot be renamed the newest is emptied
// instead: the bound on the disk comes first.
func (w *Writer) rotate() {
	var errs []error
	for i := w.maxFiles - 1; i > 0; i-- {
		err := os.Rename(numbered(w.path, i-1), numbered(w.path, i))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if w.maxFiles == 1 || len(errs) > 0 {
		errs = append(errs, w.file.Truncate(0))
	}
	errs = append(errs, w.file.Close())
	w.file, w.size = nil, 0
	if err := errors.Join(errs...); err != nil && w.cause == nil {
		w.cause = err
	}
}

// Close ends the writing. It returns why output was dropped and never told of, if any.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	err := w.cause
	if w.file != nil {
		err = errors.Join(err, w.file.Close())
	}
	return err
}
