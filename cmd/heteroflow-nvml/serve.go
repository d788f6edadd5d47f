//go:build cgo

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

// serve answers the requests of in until it ends. The answers are given by
// another goroutine than the one that reads, so that the end of the input is
// noticed while a call is stuck in the driver; the process ends with it.
func serve(in io.Reader, out io.Writer, answer func(wire.Request) (any, *wire.Error)) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, wire.MaxRequest)
	requests := make(chan []byte, 1) // the agent waits for each answer
	failed := make(chan error, 1)
	go func() {
		for line := range requests {
			if err := respond(out, line, answer); err != nil {
				failed <- err
				return
			}
		}
	}()
	for lines.Scan() {
		select {
		case requests <- append([]byte(nil), lines.Bytes()...):
		case err := <-failed:
			return err
		}
	}
	close(requests)
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read a request: %w", err)
	}
	return nil
}

func respond(out io.Writer, line []byte, answer func(wire.Request) (any, *wire.Error)) error {
	var req wire.Request
	var res wire.Response
	if err := json.Unmarshal(line, &req); err != nil {
		res.Error = &wire.Error{Code: wire.CodeRequest, Message: "not a request: " + err.Error()}
	} else {
		result, failure := answer(req)
		res.ID, res.Error = req.ID, failure
		if failure == nil {
			if res.Result, err = json.Marshal(result); err != nil {
				return fmt.Errorf("encode the answer to %s: %w", req.Method, err)
			}
		}
	}
	data, err := json.Marshal(res)
	if err != nil {
		return fmt.Errorf("encode a response: %w", err)
	}
	if len(data) > wire.MaxResponse {
		return fmt.Errorf("the answer to %s has %d bytes, more than the agent takes", req.Method, len(data))
	}
	if _, err := out.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write a response: %w", err)
	}
	return nil
}
