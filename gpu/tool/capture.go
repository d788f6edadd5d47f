package tool

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// capture reads one output stream of a child into memory, up to a cap; the rest
// is read and dropped, so that the child does not block on a full pipe.
type capture struct {
	r, w *os.File
	max  int
	done chan struct{} // closed when the reader has ended

	mu  sync.Mutex
	buf []byte
	cut bool
}

func newCapture(limit int) (*capture, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	c := &capture{r: r, w: w, max: limit, done: make(chan struct{})}
	go c.read()
	return c, nil
}

func (c *capture) read() {
	defer close(c.done)
	chunk := make([]byte, 32<<10)
	for {
		n, err := c.r.Read(chunk)
		c.mu.Lock()
		room := min(n, c.max-len(c.buf))
		c.buf = append(c.buf, chunk[:room]...)
		c.cut = c.cut || room < n
		c.mu.Unlock()
		if err != nil { // EOF, or the deadline that finish sets
			return
		}
	}
}

// settle gives the reader a last moment, when the child has ended: a grandchild
// may hold the pipe open for ever.
func (c *capture) settle(grace time.Duration) {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
	}
}

// finish gives the reader a last moment and ends it.
func (c *capture) finish(grace time.Duration) {
	c.settle(grace)
	_ = c.r.SetReadDeadline(time.Now()) // a pipe made by os.Pipe has deadlines
	<-c.done
	_ = c.r.Close()
}

// bytes returns what has been read so far.
func (c *capture) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.buf)
}

// abort releases a capture whose child was never started.
func (c *capture) abort() {
	_ = c.w.Close()
	<-c.done
	_ = c.r.Close()
}

// inputFile returns a file that holds text, at its beginning. A memory file, not
// a pipe: nobody has to write while the child may never read.
func inputFile(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "stdin")
	_, err = f.WriteString(text)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
