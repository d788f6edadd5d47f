//go:build cgo

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/gpu/nvidia/nvml/wire"
)

// conversation serves in another goroutine and returns what is said.
func conversation(t *testing.T, answer func(wire.Request) (any, *wire.Error)) (say func(string) wire.Response, end func() error) {
	t.Helper()
	in, out := io.Pipe()
	read, write := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- serve(in, write, answer) }()
	lines := bufio.NewReader(read)
	say = func(line string) wire.Response {
		t.Helper()
		if _, err := io.WriteString(out, line+"\n"); err != nil {
			t.Fatal(err)
		}
		raw, err := lines.ReadBytes('\n')
		if err != nil {
			t.Fatal(err)
		}
		var res wire.Response
		if err := json.Unmarshal(raw, &res); err != nil {
			t.Fatal(err)
		}
		return res
	}
	return say, func() error { _ = out.Close(); return <-served }
}

func TestEachRequestHasItsResponse(t *testing.T) {
	h := &helper{places: []string{"/nonexistent/" + soname}, proc: "/proc"}
	say, end := conversation(t, h.answer)
	for _, c := range []struct{ name, line, code, words string }{
		{"a greeting", `{"id":1,"method":"hello","params":{"protocol":1,"version":"x"}}`, "", `"protocol":1`},
		{"one of another release", `{"id":2,"method":"hello","params":{"protocol":99,"version":"9.0"}}`, wire.CodeProtocol, "9.0"},
		{"one without a version", `{"id":3,"method":"hello"}`, wire.CodeProtocol, "protocol 0"},
		{"an unknown method", `{"id":4,"method":"reset"}`, wire.CodeRequest, "reset"},
		{"parameters of another kind", `{"id":5,"method":"cards","params":[1]}`, wire.CodeRequest, "parameters"},
		{"a question without a library", `{"id":6,"method":"cards"}`, wire.CodeNoLibrary, soname},
		{"a spec without a library", `{"id":7,"method":"cdi","params":{}}`, wire.CodeNoLibrary, soname},
		{"no request at all", `hello?`, wire.CodeRequest, "not a request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			res := say(c.line)
			var id struct{ ID uint64 }
			_ = json.Unmarshal([]byte(c.line), &id) // the last line is none
			got := string(res.Result)
			if res.Error != nil {
				got = res.Error.Message
			}
			if res.ID != id.ID || !strings.Contains(got, c.words) || (res.Error == nil) != (c.code == "") || res.Error != nil && res.Error.Code != c.code {
				t.Errorf("%+v %v", res, res.Error)
			}
		})
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}

func TestTheEndOfTheInputIsNoticedWhileACallIsStuck(t *testing.T) {
	stuck, free := make(chan struct{}), make(chan struct{})
	in, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- serve(in, io.Discard, func(wire.Request) (any, *wire.Error) {
			close(stuck)
			<-free
			return nil, nil
		})
	}()
	if _, err := io.WriteString(out, `{"id":1,"method":"cards"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	<-stuck
	_ = out.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
	close(free)
}

func TestARequestWithoutEndIsRefused(t *testing.T) {
	err := serve(strings.NewReader(strings.Repeat("x", wire.MaxRequest+1)), io.Discard, nil)
	if !errors.Is(err, bufio.ErrTooLong) {
		t.Errorf("error %v", err)
	}
}
