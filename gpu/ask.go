package gpu

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/heteroflow/node-agent/gpu/text"
	"github.com/heteroflow/node-agent/gpu/tool"
)

// ParseFunc is the Parse method of a Detector.
type ParseFunc func(argv []string, exitCode int, output []byte) (Parsed, error)

// Codes of collector errors that this package itself gives.
const (
	CodeUnrecognised = "unrecognised_output" // the tool printed nothing we know
	CodeNoOutput     = "no_output"           // it printed nothing at all
	CodeExitStatus   = "exit_status"         // it failed without a word we know
	CodeToolHung     = "tool_hung"           // it cannot be killed
	CodeToolTimeout  = "tool_timeout"        // it was killed at its deadline
	CodeToolFailed   = "tool_failed"         // it could not be run
)

// Ask runs one command and parses what it printed. The content decides before
// the exit status does: tools print valid rows with a non-zero status and errors
// with status 0. What is no answer at all is a CollectorError in the Parsed;
// an error is what Run said (not installed, hung, timeout, cancelled).
func Ask(ctx context.Context, r tool.Runner, parse ParseFunc, cmd tool.Command) (Parsed, error) {
	res, err := r.Run(ctx, cmd)
	if err != nil {
		return Parsed{}, err
	}
	return Understand(res, parse), nil
}

// Understand parses a finished command's output as Ask does.
func Understand(res tool.Result, parse ParseFunc) Parsed {
	command := strings.Join(res.Argv, " ")
	out := res.Output()
	p, err := parse(res.Argv, res.ExitCode, out)
	switch {
	case err == nil && !p.silent():
		return p
	case len(strings.TrimSpace(string(out))) == 0:
		p.CollectorError = &CollectorError{CodeNoOutput, fmt.Sprintf(
			"%s printed nothing (exit status %d)", command, res.ExitCode)}
	case res.ExitCode != 0:
		p.CollectorError = &CollectorError{CodeExitStatus, fmt.Sprintf(
			"%s: exit status %d: %s", command, res.ExitCode, firstLine(out))}
	case err != nil:
		p.CollectorError = &CollectorError{CodeUnrecognised, fmt.Sprintf(
			"%s: %v: %s", command, err, firstLine(out))}
	}
	return p
}

// silent reports whether p says nothing at all. An empty node's valid answer
// ("no cards") is silent too; Understand keeps it when the status is 0.
func (p Parsed) silent() bool {
	return len(p.GPUs) == 0 && len(p.Stats) == 0 && len(p.Failures) == 0 &&
		p.CollectorError == nil && p.Topology == nil && len(p.Capabilities) == 0 &&
		p.MIG == nil && p.MPS == nil && len(p.Processes) == 0 && len(p.Events) == 0
}

const maxQuoted = 200 // bytes of a tool's words in a message

func firstLine(out []byte) string {
	for _, line := range text.Lines(out) {
		if line = strings.TrimSpace(line); line != "" {
			return strings.ToValidUTF8(line[:min(len(line), maxQuoted)], "")
		}
	}
	return ""
}

// Survey asks with required, then with each of the optional commands, and makes
// one Report of the answers. What the required command does not answer is the
// vendor's error; an optional command that fails, does not exist in this version
// of the tool, or comes too late only leaves its fields absent. A hung optional
// command is an error all the same: the driver is stuck.
func Survey(
	ctx context.Context, v Vendor, r tool.Runner, parse ParseFunc,
	required tool.Command, optional ...tool.Command,
) (Report, error) {
	first, err := Ask(ctx, r, parse, required)
	if err != nil {
		return Report{}, err
	}
	parts := []Parsed{first}
	for _, cmd := range optional {
		p, err := Ask(ctx, r, parse, cmd)
		if hung, ok := errors.AsType[*tool.HungError](err); ok {
			return Combine(v, parts...), hung
		}
		if err == nil && p.CollectorError == nil {
			parts = append(parts, p)
		}
	}
	return Combine(v, parts...), nil
}
