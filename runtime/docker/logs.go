package docker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/client"

	"github.com/heteroflow/node-agent/runtime"
)

// Logs returns the end of the container's output. The daemon reads the two streams from
// two pipes, so what was written to both within a moment may change places; it adds a
// newline to a last line that has none, and up to Docker 24 its local driver loses the
// newline of a line longer than 16 KiB.
func (r *Runtime) Logs(ctx context.Context, id string, opts runtime.LogOptions) ([]byte, error) {
	if err := checkID(id); err != nil {
		return nil, fmt.Errorf("read logs: %w", err)
	}
	if opts.TailBytes <= 0 {
		return nil, fmt.Errorf("read logs of container %s: %w: tail of %d bytes", id, runtime.ErrInvalid, opts.TailBytes)
	}
	request := client.ContainerLogsOptions{
		ShowStdout: true,
		ShowStderr: true,
		// The API counts in lines, of which each has a byte at least.
		Tail: strconv.FormatInt(opts.TailBytes, 10),
	}
	if !opts.Since.IsZero() {
		request.Since = opts.Since.Format(time.RFC3339Nano)
	}
	end := tail{limit: opts.TailBytes}
	err := r.call(ctx, r.timeouts.Logs, func(ctx context.Context, api *client.Client) error {
		stream, err := api.ContainerLogs(ctx, id, request)
		if err != nil {
			return err
		}
		return errors.Join(demultiplex(&end, stream), stream.Close())
	})
	if err != nil {
		return nil, fmt.Errorf("read logs of container %s: %w", id, err)
	}
	return end.bytes(), nil
}

// demultiplex copies the payloads of all frames of src, whichever stream they are of.
// Unlike stdcopy.StdCopy it never holds a whole frame, whose length the header gives as
// anything up to 4 GiB, and takes a frame that is cut short for an error.
func demultiplex(dst io.Writer, src io.Reader) error {
	var header [8]byte
	for {
		if _, err := io.ReadFull(src, header[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("read log frame: %w", err)
		}
		length := int64(binary.BigEndian.Uint32(header[4:]))
		switch stream := stdcopy.StdType(header[0]); stream {
		case stdcopy.Stdin, stdcopy.Stdout, stdcopy.Stderr:
			if _, err := io.CopyN(dst, src, length); err != nil {
				return fmt.Errorf("read log frame of %d bytes: %w", length, err)
			}
		case stdcopy.Systemerr:
			message, err := io.ReadAll(io.LimitReader(src, min(length, 4<<10)))
			return errors.Join(fmt.Errorf("read log: %s", message), err)
		default:
			return fmt.Errorf("read log frame: unknown stream %d", stream)
		}
	}
}

// tail is an io.Writer that keeps the last limit bytes and needs no more memory than
// twice that.
type tail struct {
	limit int64
	ring  []byte
	next  int // where the oldest byte stands, once ring has grown to limit
}

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if over := int64(len(p)) - t.limit; over > 0 {
		p = p[over:]
	}
	room := min(int64(len(p)), t.limit-int64(len(t.ring)))
	t.ring = append(t.ring, p[:room]...)
	for p = p[room:]; len(p) > 0; {
		copied := copy(t.ring[t.next:], p)
		p = p[copied:]
		t.next = (t.next + copied) % len(t.ring)
	}
	return n, nil
}

func (t *tail) bytes() []byte {
	return append(t.ring[t.next:len(t.ring):len(t.ring)], t.ring[:t.next]...)
}
