package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// asWorkload makes the test binary be the workload, for tests that need a
// process: signals, its environment, its death.
const asWorkload = "TEST_AS_WORKLOAD"

func TestMain(m *testing.M) {
	if os.Getenv(asWorkload) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

func workload(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), asWorkload+"=1")
	return cmd
}

// call runs a mode in this process and returns its status and both outputs.
func call(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = run(t.Context(), streams{&stdout, &stderr}, args)
	return status, stdout.String(), stderr.String()
}

func TestStatusAndMessagesOfTheCommandLine(t *testing.T) {
	tests := []struct {
		name   string
		args   string
		status int
		out    string
		err    string
	}{
		{"no mode prints the help as an error", "", 2, "", "usage: workload MODE"},
		{"--help prints every mode", "--help", 0, "spam-logs", ""},
		{"an unknown mode is named", "dance", 2, "", `unknown mode "dance"`},
		{"exit ends with its status and message", "exit --message bye 42", 42, "bye\n", ""},
		{"exit without a number is a success", "exit", 0, "", ""},
		{"exit refuses what is no exit status", "exit 256", 2, "", "0..255"},
		{"an unknown flag is a usage error said once", "sleep --fast 1s", 2, "", "-fast"},
		{"--help of a mode lists its flags and succeeds", "train --help", 0, "", "-checkpoint-dir"},
		{"sleep needs a duration", "sleep soon", 2, "", `"soon"`},
		{"sleep needs one argument", "sleep", 2, "", "0 arguments"},
		{"forkbomb is bounded", "forkbomb --max 10001", 2, "", "1..10000"},
		{"a failing mode exits 1", "touch /nonexistent/file", 1, "", "/nonexistent/file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, out, errs := call(t, strings.Fields(tt.args)...)
			if status != tt.status {
				t.Errorf("status = %d, want %d", status, tt.status)
			}
			if !strings.Contains(out, tt.out) || tt.out == "" && out != "" {
				t.Errorf("stdout = %q, want %q in it", out, tt.out)
			}
			if !strings.Contains(errs, tt.err) || tt.err == "" && errs != "" {
				t.Errorf("stderr = %q, want %q in it", errs, tt.err)
			}
		})
	}
}
