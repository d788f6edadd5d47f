package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSpamLogsKeepsItsBounds(t *testing.T) {
	tests := []struct {
		name    string
		args    string
		lines   int
		invalid int
	}{
		{"stops after the lines", "--lines 30", 30, 3},
		{"stops with the line that reaches the bytes", "--bytes 250 --width 100", 3, 0},
		{"the first bound wins", "--lines 2 --bytes 100000", 2, 0},
		{"every line may be invalid", "--lines 4 --invalid-every 1 --width 24", 4, 4},
		{"no line need be invalid", "--lines 100 --invalid-every 0", 100, 0},
		{"a rate changes nothing but the time", "--lines 3 --rate 1000000", 3, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, out, errs := call(t, append([]string{"spam-logs"}, strings.Fields(tt.args)...)...)
			if code != 0 || errs != "" {
				t.Fatalf("status %d, stderr %q", code, errs)
			}
			lines, invalid := 0, 0
			for line := range strings.Lines(out) {
				lines++
				if !utf8.ValidString(line) {
					invalid++
				}
			}
			if lines != tt.lines || invalid != tt.invalid {
				t.Errorf("%d lines, %d of them invalid; want %d, %d", lines, invalid, tt.lines, tt.invalid)
			}
		})
	}
}

func TestLogLinesHaveTheirWidth(t *testing.T) {
	for _, width := range []int{24, 100, 70000} {
		for n := range 3 {
			o := logOptions{width: width, invalidEvery: 2}
			if got := len(o.line(n + 1)); got != width {
				t.Errorf("line %d of width %d has %d bytes", n+1, width, got)
			}
		}
	}
}

func TestSpamLogsCanUseStderr(t *testing.T) {
	_, out, errs := call(t, "spam-logs", "--lines", "1", "--stderr")
	if out != "" || !strings.HasPrefix(errs, "line 0000000001 ") {
		t.Errorf("stdout %q, stderr %q", out, errs)
	}
}
