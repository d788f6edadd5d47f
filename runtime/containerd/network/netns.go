package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"

	"golang.org/x/sys/unix"
)

// makeNamespace makes a network namespace that lives as long as its name: an empty file
// with the namespace mounted on it.
func makeNamespace(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	made := make(chan error, 1)
	go func() {
		// The thread now has a namespace of its own and must serve nobody else: it is
		// never unlocked, so it ends with the goroutine.
		goruntime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			made <- fmt.Errorf("unshare: %w", err)
			return
		}
		made <- unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	}()
	if err := <-made; err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// isNamespace tells a namespace from the empty file that a crash between making and
// mounting, or between unmounting and removing it, leaves.
func isNamespace(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.NSFS_MAGIC
}

func removeNamespace(path string) error {
	for isNamespace(path) {
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
