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
	cniresult "github.com/containernetworking/cni/pkg/types/100"
)

// listFor returns the configuration to take a container's network down with. libcni
// writes what the plugins set up only when all are done, and the firewall plugin takes
// down nothing without it; so after a crash in between it is told the address that
// host-local's lease has.
func (n *Network) listFor(id string) (*libcni.NetworkConfigList, error) {
	attachments, err := n.plugins.GetCachedAttachments(id)
	if err != nil {
		return nil, fmt.Errorf("read what was set up for %s: %w", id, err)
	}
	if len(attachments) > 0 {
		return n.list, nil
	}
	address, err := n.leaseOf(id)
	if err != nil || !address.IsValid() {
		return n.list, err
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
