package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// notUTF8 is put into lines: a byte that never occurs in UTF-8 and the first
// two bytes of a three-byte character.
const notUTF8 = "\xff \xe4\xbd "

type logOptions struct {
	lines        int
	bytes        int64
	rate         int
	width        int
	invalidEvery int
}

func spamLogs(ctx context.Context, s streams, args []string) (int, error) {
	var o logOptions
	flags := newFlags("spam-logs", s)
	flags.IntVar(&o.lines, "lines", 0, "stop after `N` lines (0: no such limit)")
	flags.Int64Var(&o.bytes, "bytes", 0, "stop with the line that reaches `N` bytes (0: no such limit)")
	flags.IntVar(&o.rate, "rate", 0, "`lines` a second (0: as fast as it goes)")
	flags.IntVar(&o.width, "width", 100, "`bytes` in a line with its newline, at least 24")
	flags.IntVar(&o.invalidEvery, "invalid-every", 10, "every `N`th line is not valid UTF-8 (0: none)")
	toStderr := flags.Bool("stderr", false, "write to stderr")
	if err := parse(flags, args, 0, 0); err != nil {
		return exitUsage, err
	}
	if o.lines < 0 || o.bytes < 0 || o.rate < 0 || o.invalidEvery < 0 || o.width < 24 {
		return exitUsage, fmt.Errorf("%w: --width starts at 24, the other numbers at 0", errUsage)
	}
	out := s.out
	if *toStderr {
		out = s.err
	}
	if err := o.write(ctx, out); err != nil {
		return exitError, fmt.Errorf("write log: %w", err)
	}
	if ctx.Err() != nil {
		return exitTerminated, nil //nolint:nilerr // a stop is not an error
	}
	return exitOK, nil
}

func (o logOptions) write(ctx context.Context, w io.Writer) (err error) {
	buffered := bufio.NewWriterSize(w, 64<<10)
	defer func() { err = errors.Join(err, buffered.Flush()) }()
	var written int64
	for n := 1; ctx.Err() == nil && !o.reached(n-1, written); n++ {
		count, err := buffered.Write(o.line(n))
		written += int64(count)
		if err != nil {
			return err
		}
		if o.rate == 0 {
			continue
		}
		if err := buffered.Flush(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second / time.Duration(o.rate)):
		}
	}
	return nil
}

// reached tells whether so many lines or bytes are enough.
func (o logOptions) reached(lines int, bytes int64) bool {
	return o.lines > 0 && lines >= o.lines || o.bytes > 0 && bytes >= o.bytes
}

// line is the nth line, from 1: its number, filled up to the width.
func (o logOptions) line(n int) []byte {
	line := fmt.Appendf(make([]byte, 0, o.width), "line %010d ", n)
	if o.invalidEvery > 0 && n%o.invalidEvery == 0 {
		line = append(line, notUTF8...)
	}
	line = append(line, bytes.Repeat([]byte{'.'}, max(0, o.width-len(line)-1))...)
	return append(line, '\n')
}
