// Package logfile owns a container's output on disk: [Writer] keeps it in a bounded set
// of rotating files, [Tail] reads its end across them, also while they rotate.
//
// Each record is one line in the format the Kubernetes CRI defined and every log
// collector reads, "TIME stdout|stderr F|P TEXT": F ends with the newline the program
// wrote, P does not. So the output comes back byte for byte, whatever it contains.
//
// The package starts no goroutines.
package logfile

import (
	"bytes"
	"strconv"
	"time"
)

// Stream tells which of a program's outputs something was written to.
type Stream string

// The streams.
const (
	Stdout Stream = "stdout"
	Stderr Stream = "stderr"
)

// timeFormat has a fixed width, so that the payload starts at a fixed column.
const timeFormat = "2006-01-02T15:04:05.000000000Z"

// overhead is what a record adds to its payload: time, stream, tag, spaces, newline.
const overhead = len(timeFormat) + len(" stdout F \n")

// maxPayload bounds one record, so that a line without end is not held in memory.
const maxPayload = 16 << 10

func appendRecord(buf []byte, at time.Time, stream Stream, payload []byte) []byte {
	buf = at.UTC().AppendFormat(buf, timeFormat)
	buf = append(buf, ' ')
	buf = append(buf, stream...)
	if text, whole := bytes.CutSuffix(payload, []byte{'\n'}); whole {
		buf = append(buf, " F "...)
		buf = append(buf, text...)
	} else {
		buf = append(buf, " P "...)
		buf = append(buf, payload...)
	}
	return append(buf, '\n')
}

// appendPayload adds the payload of one line, without its trailing newline, to buf.
// A line that is no record, which a power loss can leave, adds nothing.
func appendPayload(buf, line []byte) (_ []byte, at time.Time, ok bool) {
	head := len(timeFormat) + len(" stdout F ")
	if len(line) < head {
		return buf, time.Time{}, false
	}
	at, err := time.Parse(timeFormat, string(line[:len(timeFormat)]))
	if err != nil {
		return buf, time.Time{}, false
	}
	stream, tag := line[len(timeFormat):head-2], line[head-2]
	known := string(stream) == " stdout " || string(stream) == " stderr "
	if !known || line[head-1] != ' ' || (tag != 'F' && tag != 'P') {
		return buf, time.Time{}, false
	}
	buf = append(buf, line[head:]...)
	if tag == 'F' {
		buf = append(buf, '\n')
	}
	return buf, at, true
}

// numbered is the name of the i-th newest file; the newest is path itself.
func numbered(path string, i int) string {
	if i == 0 {
		return path
	}
	return path + "." + strconv.Itoa(i)
}
