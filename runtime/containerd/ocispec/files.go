package ocispec

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	"github.com/heteroflow/node-agent/runtime"
)

// fallbackResolvers are used where the host has only resolvers of its own loopback,
// which a container cannot reach: Docker's choice.
const fallbackResolvers = "nameserver 8.8.8.8\nnameserver 8.8.4.4\n"

// ResolvConf makes a container's resolver configuration from the host's.
func ResolvConf(host []byte, mode runtime.NetworkMode) []byte {
	if mode == runtime.NetworkHost {
		return host
	}
	var out bytes.Buffer
	reachable := false
	for line := range strings.Lines(string(host)) {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "nameserver" {
			address, err := netip.ParseAddr(fields[1])
			if err != nil || address.IsLoopback() {
				continue
			}
			reachable = true
		}
		out.WriteString(strings.TrimRight(line, "\n") + "\n")
	}
	if !reachable && mode == runtime.NetworkBridge {
		out.WriteString(fallbackResolvers)
	}
	return out.Bytes()
}

// HostsFile makes a container's /etc/hosts: the host's own on its network, else the
// loopback names and the container's.
func HostsFile(host []byte, mode runtime.NetworkMode, hostname string, ip netip.Addr) []byte {
	if mode == runtime.NetworkHost {
		return host
	}
	out := []byte("127.0.0.1\tlocalhost\n" +
		"::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\nff00::0\tip6-mcastprefix\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n")
	if ip.IsValid() {
		out = fmt.Appendf(out, "%s\t%s\n", ip, hostname)
	}
	return out
}

// Hostname is the name of a container in its own UTS namespace: the one asked for, the
// host's on the host's network, else one made from the container's.
func Hostname(s runtime.Spec, host string) string {
	if s.Hostname != "" {
		return s.Hostname
	}
	if s.Network.Mode == runtime.NetworkHost && host != "" {
		return host
	}
	name := []byte(s.Name)
	for i, c := range name {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			name[i] = '-'
		}
	}
	return strings.TrimRight(string(name[:min(len(name), 63)]), "-") // the kernel takes 64, DNS 63
}
