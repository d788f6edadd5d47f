package network

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/heteroflow/node-agent/runtime"
)

// ErrPortTaken says that a port that should be published is in use on the host.
var ErrPortTaken = errors.New("host port is in use")

// checkPorts: portmap only writes packet filter rules. Without a look first it would take
// the port away from a program of the host or from another container.
func (n *Network) checkPorts(id string, ports []runtime.Port) error {
	published, err := n.published(id)
	if err != nil {
		return err
	}
	for _, p := range ports {
		if owner, ok := published[portKey{p.Protocol, p.Host}]; ok {
			return fmt.Errorf("%w: %d/%s is published by container %s", ErrPortTaken, p.Host, p.Protocol, owner)
		}
		used, err := inUse(p.Protocol, p.Host)
		if err != nil {
			return fmt.Errorf("look whether port %d/%s is in use: %w", p.Host, p.Protocol, err)
		}
		if used {
			return fmt.Errorf("%w: a program of this host listens on %d/%s", ErrPortTaken, p.Host, p.Protocol)
		}
	}
	return nil
}

type portKey struct {
	protocol string
	port     uint16
}

// published returns the ports of all containers but one, with the container of each.
func (n *Network) published(except string) (map[portKey]string, error) {
	attachments, err := n.plugins.GetCachedAttachments("")
	if err != nil {
		return nil, fmt.Errorf("read what was set up: %w", err)
	}
	found := map[portKey]string{}
	for _, a := range attachments {
		encoded, err := json.Marshal(a.CapabilityArgs["portMappings"])
		var mappings []mapping
		if err == nil {
			err = json.Unmarshal(encoded, &mappings)
		}
		if err != nil {
			return nil, fmt.Errorf("read the ports of %s: %w", a.ContainerID, err)
		}
		for _, m := range mappings {
			if a.ContainerID != except {
				found[portKey{m.Protocol, m.HostPort}] = a.ContainerID
			}
		}
	}
	return found, nil
}

// Socket states of the kernel's tables: a TCP socket that listens, and a UDP socket that
// is bound and has no peer.
const (
	tcpListen = "0A"
	udpBound  = "07"
)

func inUse(protocol string, port uint16) (bool, error) {
	state := tcpListen
	if protocol == "udp" {
		state = udpBound
	}
	for _, table := range []string{"/proc/thread-self/net/" + protocol, "/proc/thread-self/net/" + protocol + "6"} {
		used, err := listens(table, state, port)
		if used || err != nil && !errors.Is(err, fs.ErrNotExist) { // without IPv6 there is one table
			return used, err
		}
	}
	return false, nil
}

// listens reads a table whose lines are "n: LOCAL:PORT REMOTE:PORT STATE …", in hex.
func listens(table, state string, port uint16) (bool, error) {
	f, err := os.Open(table)
	if err != nil {
		return false, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || fields[3] != state {
			continue
		}
		_, hex, _ := strings.Cut(fields[1], ":")
		if local, err := strconv.ParseUint(hex, 16, 16); err == nil && uint16(local) == port {
			return true, nil
		}
	}
	return false, lines.Err()
}
