package network

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	cniresult "github.com/containernetworking/cni/pkg/types/100"
)

// listFor returns the configuration to take a container's network down with, given its
// address if that is known. libcni writes what the plugins set up only when all are done, and
// the firewall plugin takes down nothing without it; so after a crash in between it is told
// the address.
func (n *Network) listFor(id string, address netip.Addr) (*libcni.NetworkConfigList, error) {
	attachments, err := n.plugins.GetCachedAttachments(id)
	if err != nil {
		return nil, fmt.Errorf("read what was set up for %s: %w", id, err)
	}
	if len(attachments) > 0 || !address.IsValid() {
		return n.list, nil
	}
	result := &cniresult.Result{
		CNIVersion: cniVersion,
		IPs:        []*cniresult.IPConfig{{Address: net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(n.config.Subnet.Bits(), 32)}}},
	}
	list := *n.list
	list.Plugins = slices.Clone(n.list.Plugins)
	for i, plugin := range list.Plugins {
		if list.Plugins[i], err = libcni.InjectConf(plugin, map[string]any{"prevResult": result}); err != nil {
			return nil, fmt.Errorf("configure the plugins to take down %s: %w", id, err)
		}
	}
	return &list, nil
}

// addressOf finds the address that a container was given: host-local's lease has it from
// before it is used until it is given back, and what libcni wrote down until all is taken
// down. It is not valid where neither is there.
func (n *Network) addressOf(id string) (netip.Addr, error) {
	if address, err := n.leaseOf(id); err != nil || address.IsValid() {
		return address, err
	}
	result, err := n.plugins.GetNetworkListCachedResult(n.list, n.runtimeConf(id, nil))
	if err != nil || result == nil {
		return netip.Addr{}, nil //nolint:nilerr // half written, as by a crash: the lease is there then
	}
	return addressIn(result)
}

func addressIn(result types.Result) (netip.Addr, error) {
	current, err := cniresult.NewResultFromResult(result)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("read what the plugins set up: %w", err)
	}
	for _, ip := range current.IPs {
		if address, ok := netip.AddrFromSlice(ip.Address.IP); ok {
			return address.Unmap(), nil
		}
	}
	return netip.Addr{}, errors.New("the plugins gave no address")
}

// leaseOf finds the address host-local has given a container: it keeps a file by the
// name of each address, whose first line is who has it.
func (n *Network) leaseOf(id string) (netip.Addr, error) {
	dir := filepath.Join(n.config.RunDir, "ipam", networkName)
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return netip.Addr{}, fmt.Errorf("read leases: %w", err)
	}
	for _, e := range entries {
		address, err := netip.ParseAddr(e.Name())
		if err != nil {
			continue // its lock, and what it gave last
		}
		owner, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return netip.Addr{}, fmt.Errorf("read lease: %w", err)
		}
		first, _, _ := bytes.Cut(owner, []byte{'\n'})
		if string(bytes.TrimSpace(first)) == id {
			return address, nil
		}
	}
	return netip.Addr{}, nil
}
