// Package peer finds the process behind a unix socket. It only asks the kernel, and starts
// no goroutines.
package peer

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Of returns the id of the process that listens on a unix socket, as this process sees it:
// 0 when that one lives in a pid namespace that cannot be seen from here. Where systemd
// listens for a daemon it is systemd.
func Of(socket string) (int, error) {
	credentials, err := credentialsOf(socket)
	if err != nil {
		return 0, fmt.Errorf("find the process that listens on %s: %w", socket, err)
	}
	return int(credentials.Pid), nil
}

func credentialsOf(socket string) (credentials *unix.Ucred, err error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // nothing was written
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	controlErr := raw.Control(func(fd uintptr) {
		credentials, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	return credentials, errors.Join(controlErr, err)
}
