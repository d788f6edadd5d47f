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
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := onSpareThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	}); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// onSpareThread runs f on a thread that ends afterwards, so that nothing f does to it
// reaches another goroutine. The process's first thread cannot end, and what is done to
// it shows in /proc as the whole process's: it is kept out of the way.
func onSpareThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		goruntime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			defer goruntime.UnlockOSThread()
			done <- onSpareThread(f)
			return
		}
		done <- f() // the thread stays locked and ends with the goroutine
	}()
	return <-done
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
