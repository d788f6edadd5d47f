package docker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/moby/moby/api/pkg/stdcopy"
)

func frame(stream stdcopy.StdType, payload string) []byte {
	header := make([]byte, 8, 8+len(payload))
	header[0] = byte(stream)
	binary.BigEndian.PutUint32(header[4:], uint32(len(payload)))
	return append(header, payload...)
}

func TestTailKeepsTheLastBytesHoweverTheyArrive(t *testing.T) {
	const text = "0123456789abcdefghijklmnopqrstuvwxyz"
	for limit := range len(text) + 3 {
		if limit == 0 {
			continue
		}
		for piece := 1; piece <= len(text); piece++ {
			end := tail{limit: int64(limit)}
			for rest := []byte(text); len(rest) > 0; {
				n := min(piece, len(rest))
				if wrote, err := end.Write(rest[:n]); wrote != n || err != nil {
					t.Fatalf("wrote %d, %v", wrote, err)
				}
				rest = rest[n:]
			}
			if got, want := string(end.bytes()), text[len(text)-min(limit, len(text)):]; got != want {
				t.Fatalf("limit %d, pieces of %d: got %q, want %q", limit, piece, got, want)
			}
			if int64(len(end.ring)) > end.limit {
				t.Fatalf("limit %d: it holds %d bytes", limit, len(end.ring))
			}
		}
	}
}

func TestDemultiplexJoinsBothStreamsInTheirOrder(t *testing.T) {
	stream := bytes.Join([][]byte{frame(stdcopy.Stdout, "a\n"), frame(stdcopy.Stderr, "b\xff\n"), frame(stdcopy.Stdout, ""), frame(stdcopy.Stdin, "c")}, nil)
	for name, src := range map[string]io.Reader{
		"at once":      bytes.NewReader(stream),
		"byte by byte": iotest.OneByteReader(bytes.NewReader(stream)),
	} {
		var out bytes.Buffer
		if err := demultiplex(&out, src); err != nil || out.String() != "a\nb\xff\nc" {
			t.Errorf("%s: got %q, %v", name, out.String(), err)
		}
	}
}

func TestDemultiplexRefusesBrokenFrames(t *testing.T) {
	huge := []byte{1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'x'}
	for name, stream := range map[string][]byte{
		"a header cut short":  {1, 0, 0},
		"a payload cut short": huge,
		"an unknown stream":   frame(9, "x"),
		"the daemon's error":  frame(stdcopy.Systemerr, "boom"),
		"an error cut short":  {byte(stdcopy.Systemerr), 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 'x'},
	} {
		if err := demultiplex(&tail{limit: 10}, bytes.NewReader(stream)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	failure := errors.New("reset")
	src := io.MultiReader(bytes.NewReader(frame(stdcopy.Stdout, "x")), iotest.ErrReader(failure))
	if err := demultiplex(io.Discard, src); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
}

// Of whole streams moby's own reader must understand the same.
func FuzzDemultiplex(f *testing.F) {
	f.Add(frame(stdcopy.Stdout, "hello"))
	f.Add(append(frame(stdcopy.Stderr, "a"), frame(stdcopy.Stdout, "b")...))
	f.Add(frame(stdcopy.Systemerr, "x"))
	f.Add([]byte{1, 0, 0})
	f.Fuzz(func(t *testing.T, stream []byte) {
		if len(stream) > 8 && binary.BigEndian.Uint32(stream[4:]) > 1<<20 {
			stream[4] = 0 // moby's reader would allocate what the header says
		}
		var ours, theirs bytes.Buffer
		if err := demultiplex(&ours, bytes.NewReader(stream)); err != nil {
			return
		}
		if _, err := stdcopy.StdCopy(&theirs, &theirs, bytes.NewReader(stream)); err != nil || ours.String() != theirs.String() {
			t.Errorf("got %q, moby's reader %q, %v", ours.String(), theirs.String(), err)
		}
	})
}
