package nvml

import (
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/heteroflow/node-agent/test/fakenvml"
)

var (
	built     sync.Once
	helperDir string
	helper    string
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if helperDir != "" && os.RemoveAll(helperDir) != nil && code == 0 {
			code = 1
		}
		os.Exit(code)
	}))
}

// helperPath returns the real helper, built once.
func helperPath(tb testing.TB) string {
	tb.Helper()
	fakenvml.NeedCompiler(tb)
	built.Do(func() {
		var err error
		if helperDir, err = os.MkdirTemp("", "heteroflow-nvml-*"); err != nil { //nolint:usetesting // it outlives the test that builds it
			tb.Fatal(err)
		}
		helper = fakenvml.Helper(tb, helperDir)
	})
	if helper == "" {
		tb.Fatal("the helper was not built: see the first test that needed it")
	}
	return helper
}

// client returns a Client of the real helper and the library.
func client(tb testing.TB, lib fakenvml.Library) *Client {
	tb.Helper()
	return started(tb, Config{Path: helperPath(tb), Library: lib.Path, Version: "test"})
}

func started(tb testing.TB, cfg Config) *Client {
	tb.Helper()
	c := New(cfg)
	c.limits.firstPause, c.limits.lastPause = time.Millisecond, time.Millisecond
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}
