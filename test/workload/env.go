package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/heteroflow/node-agent/test/workload/report"
)

func printEnv(_ context.Context, s streams, args []string) (int, error) {
	flags := newFlags("print-env", s)
	nul := flags.Bool("nul", false, "print the raw entries, each followed by a NUL byte, instead of JSON")
	if err := parse(flags, args, 0, 0); err != nil {
		return exitUsage, err
	}
	raw, err := rawEnvironment()
	if err != nil {
		return exitError, err
	}
	if *nul {
		_, err := s.out.Write(raw)
		return exitOK, err
	}
	return exitOK, printJSON(s.out, splitEnvironment(raw))
}

// rawEnvironment is the environment as the kernel passed it. os.Environ is not:
// it drops entries whose key occurred before.
func rawEnvironment() ([]byte, error) {
	raw, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		return nil, fmt.Errorf("read environment: %w", err)
	}
	return raw, nil
}

func splitEnvironment(raw []byte) report.Environment {
	env := report.Environment{}
	for entry := range bytes.SplitSeq(bytes.TrimSuffix(raw, []byte{0}), []byte{0}) {
		if len(raw) > 0 {
			env = append(env, report.Text(entry))
		}
	}
	return env
}

func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return fmt.Errorf("print report: %w", err)
	}
	return nil
}
