package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"
)

// Tail returns at most n bytes from the end of the output kept in path and the files
// rotated out of it, of what was written at or after since. No file at all is no output.
// It holds about 3n bytes and one window of a file in memory.
func Tail(path string, maxFiles int, n int64, since time.Time) ([]byte, error) {
	files, err := openAll(path, maxFiles)
	defer func() { closeAll(files) }()
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, f := range files {
		part, older, err := tailFile(f, n-int64(len(out)), since)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", f.Name(), err)
		}
		out = append(part, out...)
		if int64(len(out)) >= n || !older {
			break
		}
	}
	return out, nil
}

// opens is how often the files are opened anew when they rotate meanwhile. A rotation
// takes longer than opening a handful of files, so the second time nearly always does.
const opens = 10

// openAll opens the files newest first. Where they rotate faster than they can be opened
// it settles for the newest: a shorter tail, but a true one.
func openAll(path string, maxFiles int) ([]*os.File, error) {
	for try := 1; ; try++ {
		files, err := openOnce(path, maxFiles)
		if err != nil || len(files) == 0 {
			return files, err
		}
		still, err := isNewest(path, maxFiles, files[0])
		if err != nil || still {
			return files, err
		}
		if try == opens {
			closeAll(files[1:])
			return files[:1], nil
		}
		closeAll(files)
	}
}

// openOnce opens what is there, newest first. One rotation meanwhile moves a file that
// is open already to the next name, where it is recognised; after two, a name holds a
// newer file than the name before it did, which [isNewest] tells.
func openOnce(path string, maxFiles int) (files []*os.File, err error) {
	var last os.FileInfo
	for i := range maxFiles {
		f, err := os.Open(numbered(path, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the gap a rotation makes for a moment
		}
		if err != nil {
			return files, err
		}
		info, err := f.Stat()
		if err != nil {
			return append(files, f), err
		}
		if last != nil && os.SameFile(last, info) {
			_ = f.Close() // read only
			continue
		}
		files, last = append(files, f), info
	}
	return files, nil
}

// isNewest tells whether no file has been begun since f was opened as the newest.
func isNewest(path string, maxFiles int, f *os.File) (bool, error) {
	opened, err := f.Stat()
	if err != nil {
		return false, err
	}
	for i := range maxFiles {
		newest, err := os.Stat(numbered(path, i))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return err == nil && os.SameFile(newest, opened), err
	}
	return false, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // read only
	}
}

// tailFile reads backwards in a window that grows until it holds enough: how much
// payload a stretch of the file has depends on the length of its lines. older is false
// when what precedes this file was written before since.
func tailFile(f *os.File, n int64, since time.Time) (payload []byte, older bool, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, false, err
	}
	size := info.Size()
	for window := n + n/4 + 4*maxPayload; ; window *= 2 {
		from := max(0, size-window)
		data := make([]byte, size-from)
		// The file may have been emptied since: what is left is what there is.
		read, err := f.ReadAt(data, from)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, false, err
		}
		data = data[:read]
		if from > 0 {
			_, data, _ = bytes.Cut(data, []byte{'\n'}) // the first line is a part of one
		}
		payload, older := payloads(data, since)
		if from == 0 || int64(len(payload)) >= n || !older {
			return payload[max(0, int64(len(payload))-n):], older, nil
		}
	}
}

func payloads(data []byte, since time.Time) (payload []byte, older bool) {
	older = true
	for line := range bytes.Lines(data) {
		line, whole := bytes.CutSuffix(line, []byte{'\n'})
		if !whole {
			break // being written
		}
		before := len(payload)
		out, at, ok := appendPayload(payload, line)
		if ok && at.Before(since) {
			out, older = out[:before], false
		}
		payload = out
	}
	return payload, older
}
