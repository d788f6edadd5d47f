// Package network owns the bridge network of containerd containers: a network namespace
// for each, made under a fixed name before its container, and what the CNI plugins bridge,
// host-local, portmap and firewall put into it and into the host's packet filter. Other
// networks of the host are never touched.
//
// All its state lies below one directory that does not survive a reboot, as the
// namespaces and rules do not either, so that what a crash left can always be found
// and taken down. It starts no goroutines that outlive a call.
package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/heteroflow/node-agent/crashpoint"
	"github.com/heteroflow/node-agent/runtime"
)

// ErrPluginMissing says that a CNI plugin is not installed.
var ErrPluginMissing = errors.New("CNI plugin not found")

// The plugins take a fraction of a second each; they wait for each other at the packet
// filter's lock.
const timeout = 60 * time.Second

const (
	networkName   = "heteroflow"
	interfaceName = "eth0"
	cniVersion    = "1.0.0" // what the oldest plugins in use, Debian 12's 1.1.1, speak
)

// Config is where things are and what the network looks like.
type Config struct {
	PluginDirs []string     // searched in order
	RunDir     string       // namespaces and leases; must not survive a reboot
	Bridge     string       // name of the bridge, at most 15 characters
	Subnet     netip.Prefix // IPv4, its first address is the bridge's
}

// Network is the bridge network of one agent. It is safe for concurrent use; calls for
// one container must not overlap.
type Network struct {
	config  Config
	plugins *libcni.CNIConfig
	list    *libcni.NetworkConfigList
	types   []string // the plugins that are run

	publish sync.Mutex // held from looking whether ports are free until they are taken
}

// New prepares the network; nothing is made before the first Up.
func New(c Config) (*Network, error) {
	if !c.Subnet.IsValid() || !c.Subnet.Addr().Is4() || c.Subnet.Bits() > 30 {
		return nil, fmt.Errorf("bridge network: subnet %s: want an IPv4 prefix of at most 30 bits", c.Subnet)
	}
	if n := len(c.Bridge); n == 0 || n > 15 {
		return nil, fmt.Errorf("bridge network: bridge name %q: want 1 to 15 characters", c.Bridge)
	}
	list, err := libcni.NetworkConfFromBytes(conflist(c))
	if err != nil {
		return nil, fmt.Errorf("bridge network: %w", err)
	}
	return &Network{
		config: c,
		list:   list,
		types:  []string{"bridge", "host-local", "portmap", "firewall"},
		plugins: libcni.NewCNIConfigWithCacheDir(c.PluginDirs, filepath.Join(c.RunDir, "cni"), &invoke.DefaultExec{
			// What a plugin has to say of a failure it says in its answer.
			RawExec:       &invoke.RawExec{},
			PluginDecoder: version.PluginDecoder{},
		}),
	}, nil
}

func conflist(c Config) []byte {
	type object = map[string]any
	data, err := json.Marshal(object{
		"cniVersion": cniVersion,
		"name":       networkName,
		"plugins": []object{
			{
				"type": "bridge", "bridge": c.Bridge, "isGateway": true, "ipMasq": true, "hairpinMode": true,
				"ipam": object{
					"type":    "host-local",
					"dataDir": filepath.Join(c.RunDir, "ipam"),
					"ranges":  [][]object{{{"subnet": c.Subnet.Masked().String()}}},
					"routes":  []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
			// Where the host drops forwarded packets by default, as Docker makes it do.
			{"type": "firewall"},
		},
	})
	if err != nil {
		panic(fmt.Sprintf("marshal CNI configuration: %v", err)) // strings and booleans always marshal
	}
	return data
}

// Path is the network namespace of a container, whether or not it exists yet.
func (n *Network) Path(id string) string { return filepath.Join(n.config.RunDir, "netns", id) }

// Up gives a container a fresh namespace with an address and published ports. What an
// earlier run of it left is taken down first; after an error nothing is left.
func (n *Network) Up(ctx context.Context, id string, ports []runtime.Port) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := n.findPlugins(); err != nil {
		return netip.Addr{}, err
	}
	if err := n.Down(ctx, id); err != nil {
		return netip.Addr{}, fmt.Errorf("clear an earlier network of %s: %w", id, err)
	}
	if len(ports) > 0 {
		n.publish.Lock()
		defer n.publish.Unlock()
		if err := n.checkPorts(id, ports); err != nil {
			return netip.Addr{}, err
		}
	}
	if err := makeNamespace(n.Path(id)); err != nil {
		return netip.Addr{}, fmt.Errorf("make network namespace of %s: %w", id, err)
	}
	crashpoint.Reach("containerd: network namespace made")
	address, err := n.add(ctx, id, ports)
	if err != nil {
		// The caller's time may be what ran out.
		return netip.Addr{}, errors.Join(err, n.Down(context.WithoutCancel(ctx), id))
	}
	return address, nil
}

func (n *Network) add(ctx context.Context, id string, ports []runtime.Port) (netip.Addr, error) {
	result, err := n.plugins.AddNetworkList(ctx, n.list, n.runtimeConf(id, portMappings(ports)))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("connect %s to bridge %s: %w", id, n.config.Bridge, err)
	}
	address, err := addressIn(result)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("connect %s to bridge %s: %w", id, n.config.Bridge, err)
	}
	return address, nil
}

// Down takes a container's network down. That there is none is no error.
func (n *Network) Down(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	left, err := n.anythingLeft(id)
	if err != nil || !left {
		return err
	}
	// portmap takes down nothing unless it is told of ports, and then all that it ever
	// set up for this container, whatever the ports are.
	conf := n.runtimeConf(id, portMappings([]runtime.Port{{Container: 1, Host: 1, Protocol: "tcp"}}))
	address, err := n.addressOf(id)
	if err != nil {
		return err
	}
	if address.IsValid() {
		if err := n.showAddress(id, address); err != nil {
			return fmt.Errorf("show the address of %s to the plugins: %w", id, err)
		}
	} else if !isNamespace(n.Path(id)) {
		conf.NetNS = "" // told so, the plugins take down the rest
	}
	list, err := n.listFor(id, address)
	if err != nil {
		return err
	}
	if err := n.plugins.DelNetworkList(ctx, list, conf); err != nil {
		return fmt.Errorf("disconnect %s from bridge %s: %w", id, n.config.Bridge, err)
	}
	crashpoint.Reach("containerd: network disconnected")
	if err := removeNamespace(n.Path(id)); err != nil {
		return fmt.Errorf("remove network namespace of %s: %w", id, err)
	}
	return nil
}

// anythingLeft: the namespace's file is made before all else and removed after it.
// Attachments are looked for as well in case somebody has removed the file.
func (n *Network) anythingLeft(id string) (bool, error) {
	_, err := os.Lstat(n.Path(id))
	if err == nil {
		return true, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	attachments, err := n.plugins.GetCachedAttachments(id)
	if err != nil {
		return false, fmt.Errorf("read what was set up for %s: %w", id, err)
	}
	return len(attachments) > 0, nil
}

// IDs returns the containers of which anything is left, by name.
func (n *Network) IDs() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(n.config.RunDir, "netns"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list network namespaces: %w", err)
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	attachments, err := n.plugins.GetCachedAttachments("")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list network attachments: %w", err)
	}
	for _, a := range attachments {
		ids = append(ids, a.ContainerID)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

func (n *Network) findPlugins() error {
	for _, plugin := range n.types {
		if _, err := invoke.FindInPath(plugin, n.config.PluginDirs); err != nil {
			return fmt.Errorf("%w: %s is in none of %v: install the package containernetworking-plugins, or run the task with network host or none",
				ErrPluginMissing, plugin, n.config.PluginDirs)
		}
	}
	return nil
}

func (n *Network) runtimeConf(id string, capabilities map[string]any) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{ContainerID: id, NetNS: n.Path(id), IfName: interfaceName, CapabilityArgs: capabilities}
}

// mapping is a published port as portmap wants it.
type mapping struct {
	HostPort      uint16 `json:"hostPort"`
	ContainerPort uint16 `json:"containerPort"`
	Protocol      string `json:"protocol"`
}

func portMappings(ports []runtime.Port) map[string]any {
	if len(ports) == 0 {
		return nil
	}
	var mappings []mapping
	for _, p := range ports {
		mappings = append(mappings, mapping{p.Host, p.Container, p.Protocol})
	}
	return map[string]any{"portMappings": mappings}
}
