package journal

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pidFile names the holder of the lock in messages. It proves nothing: the flock does.
const pidFile = "agent.pid"

// lockDir takes the exclusive lock on the state directory itself, which needs no file and
// so works on a full or read-only disk. The kernel drops it with the returned file, on
// kill -9 too; a child cannot inherit it because Go opens files close-on-exec.
func lockDir(root *os.Root, dir string) (*os.File, error) {
	f, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = &LockedError{Dir: dir, PID: holder(root)}
	} else if err != nil {
		err = fmt.Errorf("lock state directory %s: %w", dir, err)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func holder(root *os.Root) int {
	data, err := directory{root}.read(pidFile, 32)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}
