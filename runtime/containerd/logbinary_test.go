package containerd

import (
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func TestOnlyALogShimAsSafeAsTheAgentIsUsed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("to give a file to another user needs root")
	}
	cases := map[string]struct {
		put  func(path string) error // the log shim
		want string
		at   zapcore.Level
	}{
		"a program of the agent's owner": {program(0o755), LogShim, zap.InfoLevel},
		"none":                           {func(string) error { return nil }, "agent", zap.InfoLevel},
		"one that cannot be executed":    {program(0o644), "agent", zap.WarnLevel},
		"one its group can write":        {program(0o775), "agent", zap.WarnLevel},
		"one all can write":              {program(0o757), "agent", zap.WarnLevel},
		"one of another user": {func(path string) error {
			if err := program(0o755)(path); err != nil {
				return err
			}
			return os.Chown(path, 1, 1)
		}, "agent", zap.WarnLevel},
		"a link":      {func(path string) error { return os.Symlink("/bin/true", path) }, "agent", zap.WarnLevel},
		"a directory": {func(path string) error { return os.Mkdir(path, 0o755) }, "agent", zap.WarnLevel},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			agent := filepath.Join(dir, "agent")
			if err := program(0o755)(agent); err != nil {
				t.Fatal(err)
			}
			if err := tc.put(filepath.Join(dir, LogShim)); err != nil {
				t.Fatal(err)
			}
			core, logs := observer.New(zap.DebugLevel)
			want := filepath.Join(dir, tc.want)
			if got := logBinary(agent, zap.New(core)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			said := logs.All()
			if len(said) != 1 || said[0].Level != tc.at || said[0].ContextMap()["binary"] != want {
				t.Errorf("logged: %+v, want one line at %v that names %s", said, tc.at, want)
			}
		})
	}
}

// program makes a file of the mode, whatever the umask.
func program(mode os.FileMode) func(path string) error {
	return func(path string) error {
		if err := os.WriteFile(path, nil, mode); err != nil {
			return err
		}
		return os.Chmod(path, mode)
	}
}
