package ocispec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	cfs "github.com/containerd/continuity/fs"
	"github.com/moby/sys/user"

	"github.com/heteroflow/node-agent/runtime"
)

// maxUserFile bounds what is read of an image's /etc/passwd and /etc/group.
const maxUserFile = 4 << 20

// ResolveUser finds who "user[:group]", names or ids, is in the image whose root
// directory is mounted at root. Empty is root. runtime.ErrInvalid if a name is unknown.
func ResolveUser(root, spec string) (user.ExecUser, error) {
	passwd, err := readImageFile(root, "/etc/passwd")
	if err != nil {
		return user.ExecUser{}, err
	}
	group, err := readImageFile(root, "/etc/group")
	if err != nil {
		return user.ExecUser{}, err
	}
	u, err := user.GetExecUser(spec, &user.ExecUser{Home: "/"}, bytes.NewReader(passwd), bytes.NewReader(group))
	if err != nil {
		return user.ExecUser{}, fmt.Errorf("%w: user %q: %w", runtime.ErrInvalid, spec, err)
	}
	return *u, nil
}

// readImageFile reads a file of an image, which may be made to harm: links are followed
// within root, nothing but a regular file is opened, and no more than a bound is read.
// An image without the file is as one with an empty file.
func readImageFile(root, name string) ([]byte, error) {
	path, err := cfs.RootPath(root, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %s in the image: %w", runtime.ErrInvalid, name, err)
	}
	// O_NONBLOCK: opening a named pipe would wait for its other end.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s in the image: %w", name, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%w: %s in the image is no regular file", runtime.ErrInvalid, name), err)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxUserFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s in the image: %w", name, err)
	}
	if len(data) > maxUserFile {
		return nil, fmt.Errorf("%w: %s in the image is over %d MiB", runtime.ErrInvalid, name, maxUserFile>>20)
	}
	return data, nil
}
