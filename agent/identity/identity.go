// Package identity decides who this machine is to the control plane: a node id that
// stays the same across restarts, upgrades and reboots, and ids that tell boots and
// agent starts apart.
//
// The node id is configured, or read from the state directory, or derived once from the
// machine id and a MAC address and stored there. A stored id that was made on another
// machine (a cloned disk) is set aside, not used: two machines with one node id would
// steal each other's tasks.
package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/renameio/v2"
)

// FileName is the file in the state directory that holds the node id.
const FileName = "node.json"

// Identity is who this agent is.
type Identity struct {
	NodeID     string
	MachineID  string // empty: the machine has none
	BootID     string // the kernel's; empty: unknown
	InstanceID string // of this start of the agent
	SetAside   string // file a foreign node id was moved to; empty: there was none
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

// stored is the content of FileName.
type stored struct {
	NodeID    string `json:"node_id"`
	MachineID string `json:"machine_id,omitempty"` // of the machine it was made on
}

var nodeIDPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$`)

// Load finds out who this machine is, storing a node id in stateDir the first time.
// configured, if not empty, is the node id.
func Load(stateDir, configured string, src Sources) (Identity, error) {
	id := Identity{MachineID: src.machineID(), BootID: readID(src.BootIDFile), InstanceID: rand.Text()}
	if configured != "" {
		id.NodeID = configured
		if !nodeIDPattern.MatchString(configured) {
			return id, fmt.Errorf("node.id %q: want 1 to 128 of [A-Za-z0-9_.-], the first a letter or digit", configured)
		}
		return id, nil
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return id, fmt.Errorf("make state directory: %w", err)
	}
	file := filepath.Join(stateDir, FileName)
	known, err := read(file)
	switch {
	case err != nil:
		return id, err
	case known.NodeID != "" && !known.foreignTo(id.MachineID):
		id.NodeID = known.NodeID
		return id, nil
	case known.NodeID != "":
		id.SetAside = file + ".foreign-" + known.MachineID
		if err := os.Rename(file, id.SetAside); err != nil {
			return id, fmt.Errorf("set aside the node id of another machine: %w", err)
		}
	}
	if id.NodeID, err = derive(id.MachineID, src.MACs()); err != nil {
		return id, err
	}
	return id, write(file, stored{NodeID: id.NodeID, MachineID: id.MachineID})
}

// foreignTo tells whether the id was certainly made on another machine. Where either
// machine id is unknown it was not.
func (s stored) foreignTo(machineID string) bool {
	return s.MachineID != "" && machineID != "" && s.MachineID != machineID
}

func read(file string) (stored, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return stored{}, nil
	}
	if err != nil {
		return stored{}, fmt.Errorf("read node id: %w", err)
	}
	var s stored
	if err := json.Unmarshal(data, &s); err != nil || !nodeIDPattern.MatchString(s.NodeID) {
		// Deriving another id would orphan the tasks this node runs.
		return stored{}, fmt.Errorf("read node id: %s is damaged: restore it, set node.id, or remove the file to become a new node", file)
	}
	return s, nil
}

func write(file string, s stored) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("store node id: %w", err)
	}
	if err := renameio.WriteFile(file, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("store node id: %w", err)
	}
	return nil
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

func (s Sources) machineID() string {
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
