// Package fakenvml builds what tests of the NVIDIA helper need: a libnvidia-ml
// in C without a driver, whose cards do what a scenario says, and the helper
// itself. It is for tests only, and skips those that find no C compiler.
package fakenvml

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed lib/fakenvml.c
var source []byte

// Driver is the version of the driver that the library claims.
const Driver = "575.57.08"

// Library is a built library.
type Library struct {
	Path string // its name is libnvidia-ml.so.1
	tb   testing.TB
}

// Build compiles the library, without the calls that are named missing.
func Build(tb testing.TB, missing ...string) Library {
	tb.Helper()
	NeedCompiler(tb)
	dir := tb.TempDir()
	lib := Library{filepath.Join(dir, "libnvidia-ml.so.1"), tb}
	script := "{ global: *; };\n"
	if len(missing) > 0 {
		script = "{ global: *; local: " + strings.Join(missing, "; ") + "; };\n"
	}
	code, symbols := filepath.Join(dir, "fakenvml.c"), filepath.Join(dir, "symbols")
	write(tb, code, source)
	write(tb, symbols, []byte(script))
	run(tb, nil, compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1",
		"-Wl,--version-script="+symbols, "-o", lib.Path, code, "-ldl")
	return lib
}

// Set changes what the cards do, from their next round or wait on. A line is
// one of
//
//	cards N            there are so many
//	init R, count R    nvmlInit, nvmlDeviceGetCount return R
//	handle I R         card I cannot be opened
//	lost I             card I answers "GPU is lost"
//	fail I R CALL      one call of card I returns R
//	hang I, crash I    reading the temperature of card I never ends, or kills
//	action I A         the recovery action of card I
//	mig I N            card I is in MIG mode with N instances
//	xid N I CODE       the N-th error, of card I; each is delivered once
//	wait R             waiting for errors returns R
func (l Library) Set(lines ...string) {
	l.tb.Helper()
	path := l.Path + ".scenario"
	write(l.tb, path+".new", []byte(strings.Join(lines, "\n")+"\n"))
	if err := os.Rename(path+".new", path); err != nil {
		l.tb.Fatal(err)
	}
}

// UUID is the uuid of card i.
func UUID(i int) string { return fmt.Sprintf("GPU-%08x-52c8-4be1-a0c4-6f1e2d3c4b50", 0x3d0f7a10+i) }

// BusID is the address of card i as NVML writes it.
func BusID(i int) string { return fmt.Sprintf("00000000:%02X:00.0", 0x11+16*i) }

// Helper builds heteroflow-nvml into dir and returns its path.
func Helper(tb testing.TB, dir string) string {
	tb.Helper()
	NeedCompiler(tb)
	path := filepath.Join(dir, "heteroflow-nvml")
	// NVIDIA's header marks calls as deprecated that older drivers need.
	run(tb, []string{"CGO_ENABLED=1", "CGO_CFLAGS=-O2 -Wno-deprecated-declarations"},
		"go", "build", "-o", path, "github.com/heteroflow/node-agent/cmd/heteroflow-nvml")
	return path
}

// NeedCompiler skips the test where there is no C compiler.
func NeedCompiler(tb testing.TB) {
	tb.Helper()
	if _, err := exec.LookPath(compiler); err != nil {
		tb.Skip("no gcc: neither the simulated libnvidia-ml nor the helper can be built")
	}
}

const compiler = "gcc"

func run(tb testing.TB, env []string, argv ...string) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
}

func write(tb testing.TB, path string, data []byte) {
	tb.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tb.Fatal(err)
	}
}
