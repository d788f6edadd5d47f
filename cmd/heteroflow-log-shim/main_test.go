package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/heteroflow/node-agent/runtime/containerd"
	"github.com/heteroflow/node-agent/test/stage"
)

// What all of this initialises, each start of a task waits for: measure with BenchmarkLogShim
// of test/perf before anything is added here.
var allowed = []string{
	"github.com/containerd/errdefs",
	"google.golang.org/protobuf/encoding/protowire",
	"google.golang.org/protobuf/internal/detrand",
	"google.golang.org/protobuf/internal/errors",
}

// dear are packages of the standard library that start slowly or bring one that does.
var dear = []string{"crypto/tls", "log/slog", "net/http", "os/exec", "regexp", "text/template"}

func TestItIsMadeOfNothingThatMakesItsStartSlow(t *testing.T) {
	for _, pkg := range list(t, "{{if not .Standard}}{{.ImportPath}}{{end}}") {
		if !slices.Contains(allowed, pkg) && !strings.HasPrefix(pkg, "github.com/heteroflow/node-agent/") {
			t.Errorf("it depends on %s", pkg)
		}
	}
	for _, pkg := range list(t, "{{if .Standard}}{{.ImportPath}}{{end}}") {
		if slices.Contains(dear, pkg) {
			t.Errorf("it depends on %s", pkg)
		}
	}
}

func list(t *testing.T, format string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", format, ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) == 0 {
		t.Fatal("go list names no packages")
	}
	return packages
}

func TestStartedByHandItSaysWhoStartsIt(t *testing.T) {
	dir := t.TempDir()
	if err := stage.BuildLogShim(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{nil, {"log-shim"}, {"run", dir}, {"log-shim", dir, "more"}, {"log-shim", dir}} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, containerd.LogShim), args...)
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "by containerd's shim only") {
			t.Errorf("%q: got %v, %q", args, err, out)
		}
	}
}
