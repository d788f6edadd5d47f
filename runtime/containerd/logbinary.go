package containerd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"go.uber.org/zap"
)

// LogShim is the file name of the log shim that is a program of its own. It starts in a
// quarter of the time that the agent's own command takes.
const LogShim = "heteroflow-log-shim"

// logBinary chooses what containerd's shims start beside the tasks, and says what it is:
// the program beside the agent, or the agent where there is none that can be trusted.
func logBinary(agent string, log *zap.Logger) string {
	slim := filepath.Join(filepath.Dir(agent), LogShim)
	err := trusted(slim, agent)
	if err == nil {
		log.Info("log shim of containerd tasks chosen", zap.String("binary", slim))
		return slim
	}
	event := "log shim of containerd tasks is the agent itself; each start takes longer"
	if errors.Is(err, fs.ErrNotExist) {
		log.Info(event, zap.String("binary", agent), zap.String("missing", slim))
	} else {
		log.Warn(event, zap.String("binary", agent), zap.Error(err))
	}
	return agent
}

// trusted: containerd's shim runs the file as root, so it must be as safe as the agent.
func trusted(file, agent string) error {
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	like, err := os.Stat(agent)
	if err != nil {
		return err
	}
	mode := info.Mode()
	switch {
	case !mode.IsRegular():
		return fmt.Errorf("%s is not a regular file: %s", file, mode)
	case mode.Perm()&0o111 == 0:
		return fmt.Errorf("%s is not executable: %s", file, mode)
	case mode.Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by others than its owner: %s", file, mode)
	case owner(info) != owner(like):
		return fmt.Errorf("%s belongs to user %d, the agent to user %d", file, owner(info), owner(like))
	}
	return nil
}

func owner(info fs.FileInfo) uint32 {
	return info.Sys().(*syscall.Stat_t).Uid //nolint:errcheck // os.Stat on Linux returns nothing else
}
