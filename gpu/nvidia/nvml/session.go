package nvml

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// session is a running helper that has said hello.
type session struct {
	proc  *tool.Process
	lines *bufio.Scanner
	last  uint64 // id of the last request
	hello wire.Hello
}

// open starts a helper. The error wraps tool.ErrNotInstalled when there is none,
// and a *wire.Error when it is of another release.
func open(ctx context.Context, exec *tool.Exec, cmd tool.Command, version string) (*session, error) {
	proc, err := exec.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	s := &session{proc: proc, lines: bufio.NewScanner(proc)}
	s.lines.Buffer(nil, wire.MaxResponse)
	self := wire.Hello{Protocol: wire.Version, Version: version}
	err = s.call(ctx, wire.MethodHello, self, &s.hello)
	if refused := self.Refuse(s.hello); err == nil && refused != nil {
		err = refused
	}
	if err != nil {
		return nil, errors.Join(err, proc.Close())
	}
	return s, nil
}

// call asks one question. A *wire.Error is the helper's answer; after any other
// error the session is of no more use, because an answer may still come.
func (s *session) call(ctx context.Context, method string, params, result any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	s.last++
	line, err := json.Marshal(wire.Request{ID: s.last, Method: method, Params: raw})
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	if len(line) > wire.MaxRequest {
		return fmt.Errorf("ask NVIDIA helper for %s: a request of %d bytes, at most %d", method, len(line), wire.MaxRequest)
	}
	res, err := s.exchange(ctx, append(line, '\n'))
	switch {
	case err != nil:
		return fmt.Errorf("ask NVIDIA helper for %s: %w", method, err)
	case res.Error != nil:
		return res.Error
	}
	if err := json.Unmarshal(res.Result, result); err != nil {
		return fmt.Errorf("ask NVIDIA helper for %s: its answer: %w", method, err)
	}
	return nil
}

// exchange writes a line and reads the response to it, until ctx ends.
func (s *session) exchange(ctx context.Context, line []byte) (wire.Response, error) {
	var res wire.Response
	deadline, _ := ctx.Deadline() // without one: none
	if err := s.proc.SetDeadline(deadline); err != nil {
		return res, s.cause(ctx, err)
	}
	ended := make(chan struct{})
	cut := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = s.proc.SetDeadline(time.Now()) // fails only when it is closed already
	})
	defer func() {
		if !cut() {
			<-ended // lest it cut the next question short
		}
	}()
	if _, err := s.proc.Write(line); err != nil {
		return res, s.cause(ctx, err)
	}
	if !s.lines.Scan() {
		err := s.lines.Err()
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		return res, s.cause(ctx, err)
	}
	if err := json.Unmarshal(s.lines.Bytes(), &res); err != nil {
		return res, fmt.Errorf("it answers %.60q: %w", s.lines.Bytes(), err)
	}
	if res.ID != s.last {
		return res, fmt.Errorf("it answers request %d, asked was %d", res.ID, s.last)
	}
	return res, nil
}

// deathGrace is how long a helper whose output has ended may take to be reaped.
const deathGrace = 2 * time.Second

// cause says why no response came: the caller's reason, or how the helper died.
func (s *session) cause(ctx context.Context, err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		<-ctx.Done() // the file's deadline is its own, and may be noticed first
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	timer := time.NewTimer(deathGrace)
	defer timer.Stop()
	select {
	case <-s.proc.Done():
		return fmt.Errorf("it ended with status %d%s", s.proc.ExitCode(), s.words())
	case <-timer.C:
		return fmt.Errorf("%w%s", err, s.words())
	}
}

// words are the end of what the helper said on its standard error.
func (s *session) words() string {
	const most = 300
	lines := strings.Split(strings.TrimSpace(strings.ToValidUTF8(string(s.proc.Stderr()), "")), "\n")
	last := lines[len(lines)-1]
	if last == "" {
		return ""
	}
	return ": " + strings.ToValidUTF8(last[max(0, len(last)-most):], "")
}
