// Package identity decides who this machine is to the control plane: a node id that
// stays the same across restarts, upgrades and reboots, and ids that tell boots and
// agent starts apart.
//
// The node id is configured, or read from the journal, or derived once from the machine
// id and a MAC address and stored there. The journal keeps an id that was made on another
// machine (a cloned disk) from being used: two machines with one node id would steal each
// other's tasks.
package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/heteroflow/node-agent/agent/journal"
	"github.com/heteroflow/node-agent/protocol"
)

// Identity is who this agent is.
type Identity struct {
	NodeID     string
	BootID     string // the kernel's; empty: unknown
	InstanceID string // of this start of the agent
}

// Sources are where facts about the machine are read; tests replace them.
type Sources struct {
	MachineIDFiles []string
	BootIDFile     string
	MACs           func() []net.HardwareAddr
}

// System reads the machine the process runs on.
func System() Sources {
	return Sources{
		MachineIDFiles: []string{"/etc/machine-id", "/var/lib/dbus/machine-id"},
		BootIDFile:     "/proc/sys/kernel/random/boot_id",
		MACs:           hardwareMACs,
	}
}

// record is what the journal keeps under recordKey.
type record struct {
	NodeID string `json:"node_id"`
}

const recordKey = "id"

// Load finds out who this machine is. configured, if not empty, is the node id; else it
// is the one in the journal, which is derived and stored the first time. An id that could
// not be stored durably is used all the same: it would be derived again.
func Load(j *journal.Journal, configured string, src Sources) (Identity, error) {
	id := Identity{BootID: readID(src.BootIDFile), InstanceID: rand.Text()}
	if configured != "" {
		id.NodeID = configured
		if !protocol.ValidNodeID(configured) {
			return id, fmt.Errorf("node.id %q: want 1 to 128 of [A-Za-z0-9_.-], the first a letter or digit", configured)
		}
		return id, nil
	}
	records, err := journal.NewCollection[record](j, journal.Node, journal.Limits[record]{})
	if err != nil {
		return id, fmt.Errorf("read node id: %w", err)
	}
	known, found, err := records.Get(recordKey)
	if err != nil {
		return id, fmt.Errorf("read node id: %w", err)
	}
	if found && protocol.ValidNodeID(known.NodeID) {
		id.NodeID = known.NodeID
		return id, nil
	}
	if id.NodeID, err = derive(src.MachineID(), src.MACs()); err != nil {
		return id, err
	}
	if err := records.Put(recordKey, record{NodeID: id.NodeID}); err != nil && !errors.Is(err, journal.ErrNotDurable) {
		return id, fmt.Errorf("store node id: %w", err)
	}
	return id, nil
}

// derive makes a node id. Machine ids are confidential (machine-id(5)), hence the hash.
func derive(machineID string, macs []net.HardwareAddr) (string, error) {
	if machineID == "" && len(macs) == 0 {
		return "", errors.New("derive node id: this machine has neither a machine id nor a hardware address: set node.id")
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "heteroflow-node\n%s\n", machineID)
	if len(macs) > 0 {
		fmt.Fprintf(hash, "%s\n", macs[0])
	}
	return "node-" + hex.EncodeToString(hash.Sum(nil))[:20], nil
}

// MachineID tells machines apart; empty: this one has none that can be read.
func (s Sources) MachineID() string {
	for _, file := range s.MachineIDFiles {
		if id := readID(file); id != "" && id != "uninitialized" {
			return id
		}
	}
	return ""
}

func readID(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return "" // an identity the machine does not have is left out of the node id
	}
	return strings.TrimSpace(string(data))
}

// hardwareMACs are the addresses of real network cards, in the kernel's order: bridges,
// tunnels and container interfaces come and go and have no device behind them.
func hardwareMACs() []net.HardwareAddr {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var macs []net.HardwareAddr
	for _, i := range interfaces {
		if _, err := os.Stat(filepath.Join("/sys/class/net", i.Name, "device")); err == nil && len(i.HardwareAddr) > 0 {
			macs = append(macs, i.HardwareAddr)
		}
	}
	return macs
}
