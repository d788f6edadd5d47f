package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// The bridge plugin takes away the masquerading of the addresses that it finds on the
// container's interface. Where the interface is gone, with its namespace that somebody has
// removed or since a teardown was cut off, it takes away nothing, says nothing, and the rule
// that stays is in the way of a later teardown. So it is given an interface with the address.

// showAddress makes the interface of a container have the address, if it has not; both it
// and its namespace are made where they are missing.
func (n *Network) showAddress(id string, address netip.Addr) error {
	path := n.Path(id)
	if !isNamespace(path) {
		if err := errors.Join(removeNamespace(path), makeNamespace(path)); err != nil {
			return err
		}
	}
	return inNamespace(path, func() error {
		has, err := hasAddress(address)
		if err != nil || has {
			return err
		}
		return setAddress(address)
	})
}

// inNamespace runs f on a thread that is in the namespace.
func inNamespace(path string, f func() error) error {
	return onSpareThread(func() error {
		namespace, err := os.Open(path)
		if err != nil {
			return err
		}
		defer func() { _ = namespace.Close() }() // it was only read
		if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter %s: %w", path, err)
		}
		return f()
	})
}

func hasAddress(address netip.Addr) (bool, error) {
	all, err := net.Interfaces()
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(all, func(i net.Interface) bool { return i.Name == interfaceName })
	if i < 0 {
		return false, nil
	}
	addresses, err := all[i].Addrs()
	return slices.ContainsFunc(addresses, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr() == address
	}), err
}

// setAddress gives the interface of the namespace it is called in the address. A missing one
// is made a bridge, which is what there is wherever the plugin works.
func setAddress(address netip.Addr) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open a socket: %w", err)
	}
	defer func() { _ = unix.Close(socket) }() // nothing was written
	request, err := unix.NewIfreq(interfaceName)
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCBRADDBR, request); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make %s: %w", interfaceName, err)
	}
	if err := request.SetInet4Addr(address.AsSlice()); err != nil {
		return err
	}
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFADDR, request); err != nil {
		return fmt.Errorf("give %s the address %s: %w", interfaceName, address, err)
	}
	return nil
}
